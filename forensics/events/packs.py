"""Packs of rules: the shipped one, and folders of one's own that are laid over it by id.

A pack is a folder with `pack.yaml` (its name and version), event rules, and where wanted `layouts/`
and `kinds/`. A rule or layout whose id is taken replaces the one below; `disable` takes ids away.
Nothing is ever fetched: a pack is what stands in its folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from forensics import __version__
from forensics.errors import Problem, RuleError, duplicate_ids
from forensics.events.rules import Kind, Rule, load_rules, read_kinds
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, rules_folder
from forensics.parsing.layouts import Layout, load_layouts, sort_layouts

T = TypeVar("T")

_PACK_KEYS = {"name", "version", "needs", "about", "disable"}
_MANIFEST = "pack.yaml"
# The limits of detectors, which the stage of incidents reads.
LIMITS = "limits.yaml"
_NOT_RULES = (_MANIFEST, LIMITS)


@dataclass(frozen=True)
class Pack:
    """A folder of rules, read once; `pages` are its YAML files by their names inside it."""

    origin: str
    pages: Mapping[str, FileText]

    @cached_property
    def sha256(self) -> str:
        """Name exactly these rules: the digest of all files and their names."""
        digest = sha256()
        for name, page in sorted(self.pages.items()):
            digest.update(f"{name}\0{len(page.data)}\0".encode())
            digest.update(page.data)
        return digest.hexdigest()

    def pages_in(self, name: str) -> list[FileText]:
        """Give the files below one folder of the pack, or beside its head for event rules."""
        loose = name == "events"
        return [
            page
            for path, page in sorted(self.pages.items())
            if path.startswith(name + "/") or (loose and "/" not in path and path not in _NOT_RULES)
        ]


@dataclass(frozen=True)
class RuleSet:
    """All layouts and rules that are in force, and the packs they come from."""

    layouts: tuple[Layout, ...]
    rules: tuple[Rule, ...]
    packs: tuple[Mapping[str, str], ...]

    def active_rules(self, *, context: bool = False) -> tuple[Rule, ...]:
        """Give the rules that a scan asks: those that tell something, and context if wanted."""
        return tuple(
            rule for rule in self.rules if not rule.is_routine and (context or not rule.context)
        )


@dataclass
class _Merged:
    layouts: dict[str, Layout] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    packs: list[Mapping[str, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def open_pack(path: Path) -> Pack:
    """Read a pack from a folder, or a single event rule from a file."""
    if not path.is_dir():
        return Pack(str(path), {path.name: FileText(str(path), path.read_bytes())})
    found = [*path.rglob("*.yaml"), *path.glob("detectors/*.py")]
    names = (one.relative_to(path).as_posix() for one in found)
    pages = {name: FileText(str(path / name), (path / name).read_bytes()) for name in names}
    return Pack(str(path), pages)


def packs_to_json(packs: Sequence[Pack]) -> str:
    """Write packs as text, which is all that an option of Spark can carry."""
    return json.dumps(
        [
            [pack.origin, {name: page.data.decode() for name, page in pack.pages.items()}]
            for pack in packs
        ]
    )


def packs_from_json(text: str) -> list[Pack]:
    """Read packs that `packs_to_json` has written."""
    return [
        Pack(
            origin,
            {name: FileText(f"{origin}/{name}", body.encode()) for name, body in pages.items()},
        )
        for origin, pages in json.loads(text or "[]")
    ]


def merge_packs(overlays: Sequence[Pack] = ()) -> tuple[RuleSet, list[Problem]]:
    """Lay packs over the shipped one, the last on top; what cannot be read is a problem."""
    merged = _Merged()
    for pack in (_shipped_pack(), *overlays):
        _merge_pack(pack, merged)
    found = RuleSet(
        sort_layouts(merged.layouts.values()), tuple(merged.rules.values()), tuple(merged.packs)
    )
    return found, sorted(merged.problems)


def load_rule_set(overlays: Sequence[Pack] = ()) -> RuleSet:
    """Lay packs over the shipped one, or say in one error all that cannot be read."""
    found, problems = merge_packs(overlays)
    if problems:
        raise RuleError(problems)
    return found


def _shipped_pack() -> Pack:
    folders = ("events", "layouts", "kinds", "detectors", "quality")
    whole = open_pack(rules_folder())
    pages = {
        name: page
        for name, page in whole.pages.items()
        if name in _NOT_RULES or name.partition("/")[0] in folders
    }
    return Pack(whole.origin, pages)


def _merge_pack(pack: Pack, merged: _Merged) -> None:
    if not pack.pages:
        says = "no rules here: there is no file *.yaml"
        merged.problems.append(Problem(pack.origin, 1, says))
    disabled = _read_manifest(pack, merged)
    for gone in disabled:
        merged.rules.pop(gone, None)
        merged.layouts.pop(gone, None)
    for page in pack.pages_in("kinds"):
        try:
            merged.kinds |= dict(read_kinds(page))
        except RuleError as error:
            merged.problems += error.problems
    rules = [
        rule
        for page in pack.pages_in("events")
        for rule in _read(partial(load_rules, [page], merged.kinds), merged)
    ]
    merged.problems += duplicate_ids((rule.id, rule.path) for rule in rules)
    merged.rules |= {rule.id: rule for rule in rules}
    layouts = [
        layout
        for page in pack.pages_in("layouts")
        for layout in _read(partial(load_layouts, [page]), merged)
    ]
    merged.problems += duplicate_ids((layout.id, layout.origin.file) for layout in layouts)
    merged.layouts |= {layout.id: layout for layout in layouts}


def _read_manifest(pack: Pack, merged: _Merged) -> list[str]:
    """Read pack.yaml: note name, version and digest, and give the ids to take away."""
    page = pack.pages.get(_MANIFEST)
    head = next(iter(_read(lambda: [load_yaml(page)], merged)), {}) if page else {}
    name = str(head.get("name", Path(pack.origin).stem))
    version = str(head.get("version", ""))
    merged.packs.append({"name": name, "version": version, "sha256": pack.sha256})
    for says, key in _manifest_faults(head, merged):
        merged.problems.append(Problem(str(page), line_of(head, key), says))
    return [str(one) for one in head.get("disable") or ()]


def _manifest_faults(head: Mapping[str, object], merged: _Merged) -> Iterator[tuple[str, str]]:
    for key in head:
        if key not in _PACK_KEYS:
            yield f"unknown key {key!r}; known: {sorted(_PACK_KEYS)}", key
    needed = str(head.get("needs", __version__))
    if _numbers(needed) > _numbers(__version__):
        yield f"needs kafka-forensics {needed} or newer; this is {__version__}", "needs"
    disable = head.get("disable") or ()
    if not isinstance(disable, Sequence) or isinstance(disable, str):
        yield "'disable' must be a list of ids", "disable"
        return
    for one in disable:
        if one not in merged.rules and one not in merged.layouts:
            yield f"'disable' names {one!r}, which is no rule and no layout", "disable"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _read(load: Callable[[], Iterable[T]], merged: _Merged) -> Iterable[T]:
    try:
        return load()
    except RuleError as error:
        merged.problems += error.problems
        return ()
