"""Names the rules in force by two digests: what reading depends on, and what finding depends on.

When only limits or detectors change, weeks are built anew from the events that are kept; when the
rules of reading change, only logs that are given again can be read by the new ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from forensics import __version__
from forensics.events.packs import Pack, open_pack
from forensics.lib.yaml_with_lines import load_yaml, rules_folder
from forensics.schemas import EVENTS

# Raised when the same rules read the same lines in another way.
_READING = 1
_FOLDERS = ("events/", "kinds/", "layouts/", "wrappers/", "nodes/")
_FILES = ("errors.yaml",)
# These stand beside the rules of a pack, and are none.
_NO_RULES = ("limits.yaml", "chains.yaml", "alerts.yaml", "pack.yaml")
# What is written from the rules, and says nothing by itself.
_WRITTEN = ("schema/",)


@dataclass(frozen=True)
class RulesDigest:
    """The digests of the rules."""

    reading: str
    finding: str

    def as_json(self) -> dict[str, str]:
        """Give them as they stand in a store."""
        return {"reading": self.reading, "finding": self.finding}


def digest_rules(packs: Sequence[Pack]) -> RulesDigest:
    """Digest the shipped rules with packs over them."""
    shipped = open_pack(rules_folder())
    plugins = sorted(one.value for one in entry_points(group="kafka_forensics.detectors"))
    told = [name for name in _names(shipped) if name.startswith(_FOLDERS) or name in _FILES]
    reading = [str(_READING), str(EVENTS), *_pages(shipped, told)]
    # Findings quote what rules mean and name the packs, so they depend on all of it.
    finding = [__version__, *plugins, *_pages(shipped, _names(shipped))]
    for pack in packs:
        rules = [name for name in _names(pack) if _is_read(name)]
        disabled = _disabled(pack)
        # A pack of limits alone changes nothing of how lines are read.
        if rules or disabled:
            reading += [f"without {disabled}", *_pages(pack, rules)]
        finding += _pages(pack, _names(pack))
    return RulesDigest(_digest(reading), _digest(finding))


def _is_read(name: str) -> bool:
    """Whether a file of a pack tells how lines are read: rules may stand loose beside its head."""
    loose = "/" not in name and name not in _NO_RULES
    return loose or name.startswith(_FOLDERS)


def _disabled(pack: Pack) -> list[str]:
    """Name the shipped rules that the head of a pack takes away."""
    head = pack.pages.get("pack.yaml")
    named = load_yaml(head).get("disable") if head else None
    return sorted(map(str, named or ()))


def _names(pack: Pack) -> list[str]:
    return [name for name in sorted(pack.pages) if not name.startswith(_WRITTEN)]


def _pages(pack: Pack, names: Sequence[str]) -> Iterator[str]:
    yield f"a pack of {len(names)}"
    for name in names:
        yield f"{name} {hashlib.sha256(pack.pages[name].data).hexdigest()}"


def _digest(words: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for word in words:
        digest.update(f"{len(word)}\0{word}".encode())
    return digest.hexdigest()
