"""Two digests of the rules in force: of what reading depends on, and of what finding depends on.

When only limits or detectors change, weeks are built anew from the events that are kept; when the
rules of reading change, only logs that are given again can be read by the new ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from typing import NamedTuple

from forensics import __version__
from forensics.events.packs import Pack, open_pack
from forensics.lib.yaml_with_lines import load_yaml, rules_folder
from forensics.schemas import EVENTS, without_meanings

# Raised when the same rules read the same lines in another way.
_READER_VERSION = 1
_READING_FOLDERS = ("events/", "kinds/", "layouts/", "wrappers/", "nodes/")
_READING_FILES = ("errors.yaml",)
# Files of a pack that are not rules of reading; those may stand beside them.
_OTHER_FILES = ("limits.yaml", "chains.yaml", "alerts.yaml", "pack.yaml")
# Generated from the rules.
_GENERATED = ("schema/",)


class RulesDigest(NamedTuple):
    """The digests of the rules."""

    reading: str
    finding: str


def digest_rules(packs: Sequence[Pack]) -> RulesDigest:
    """Digest the shipped rules with packs over them."""
    shipped = open_pack(rules_folder())
    plugins = sorted(each.value for each in entry_points(group="kafka_forensics.detectors"))
    names = [name for name in _names(shipped)
             if name.startswith(_READING_FOLDERS) or name in _READING_FILES]  # fmt: skip
    reading = [str(_READER_VERSION), str(without_meanings(EVENTS)), *_describe(shipped, names)]
    # Findings quote what rules mean and name the packs, so they depend on all files.
    finding = [__version__, *plugins, *_describe(shipped, _names(shipped))]
    for pack in packs:
        names = [name for name in _names(pack) if _is_for_reading(name)]
        head = pack.pages.get("pack.yaml")
        disabled = sorted(map(str, (load_yaml(head).get("disable") if head else None) or ()))
        # A pack of limits alone changes nothing of how lines are read.
        if names or disabled:
            reading += [f"without {disabled}", *_describe(pack, names)]
        finding += _describe(pack, _names(pack))
    return RulesDigest(digest_texts(reading), digest_texts(finding))


def _is_for_reading(name: str) -> bool:
    """Return True for rules of reading; in a pack they may stand beside its head, in no folder."""
    is_loose = "/" not in name and name not in _OTHER_FILES
    return is_loose or name.startswith(_READING_FOLDERS)


def _names(pack: Pack) -> list[str]:
    return [name for name in sorted(pack.pages) if not name.startswith(_GENERATED)]


def _describe(pack: Pack, names: Sequence[str]) -> Iterator[str]:
    yield f"a pack of {len(names)}"
    for name in names:
        yield f"{name} {hashlib.sha256(pack.pages[name].data).hexdigest()}"


def digest_texts(texts: Iterable[str]) -> str:
    """Digest texts one after the other, each with its length before it."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode()
        digest.update(f"{len(data)}\0".encode() + data)
    return digest.hexdigest()
