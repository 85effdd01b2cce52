"""Packs of rules: the shipped one, and the user's own folders that are laid over it by id.

A pack is a folder with `pack.yaml` (its name and version), event rules, and where wanted
`layouts/`, `wrappers/` and `kinds/`. A rule, layout or wrapper whose id is taken replaces the one
below; `disable` takes ids away.
Nothing is ever fetched: a pack is what its folder holds, and no link leads out of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any

from forensics import __version__
from forensics.errors import Problem, RuleError, collect_problems, duplicate_ids
from forensics.events.rules import Kind, Rule, load_rules, read_kinds
from forensics.ingest.wrappers import Wrapper, load_wrappers
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, read_limited, rules_folder
from forensics.parsing.layouts import Layout, load_layouts, sort_layouts

_PACK_KEYS = {"name", "version", "needs", "about", "disable"}
_MANIFEST = "pack.yaml"
# The thresholds of detectors, which the detection reads.
LIMITS = "limits.yaml"
_NOT_RULES = (_MANIFEST, LIMITS)
_MOST_PATTERNS = 32
# The shipped pack has 700.
_MOST_FILES = 10_000


@dataclass(frozen=True)
class Pack:
    """A folder of rules, read once; `pages` are its YAML files by their names inside it."""

    origin: str
    pages: Mapping[str, FileText]

    @cached_property
    def sha256(self) -> str:
        """The digest of all files and their names, which names exactly these rules."""
        digest = sha256()
        for name, page in sorted(self.pages.items()):
            digest.update(f"{name}\0{len(page.data)}\0".encode())
            digest.update(page.data)
        return digest.hexdigest()

    @property
    def programs(self) -> list[FileText]:
        """Return its detectors that are Python, which runs as it is."""
        return [page for page in self.pages_in("detectors") if page.name.endswith(".py")]

    def pages_in(self, name: str) -> list[FileText]:
        """Return the files below one folder; event rules may also lie beside pack.yaml."""
        loose = name == "events"
        return [
            page
            for path, page in sorted(self.pages.items())
            if path.startswith(name + "/") or (loose and "/" not in path and path not in _NOT_RULES)
        ]


@dataclass(frozen=True)
class RuleSet:
    """All layouts, rules and wrappers in force, and the packs they come from."""

    layouts: tuple[Layout, ...]
    rules: tuple[Rule, ...]
    packs: tuple[Mapping[str, str], ...]
    # those of packs first
    wrappers: tuple[Wrapper, ...] = ()
    # the packs that lie over the shipped one
    overlays: tuple[Pack, ...] = ()

    def active_rules(self, *, context: bool = False) -> tuple[Rule, ...]:
        """Return the rules that a scan applies: no routine, and context only if asked for."""
        return tuple(
            rule for rule in self.rules if not rule.is_routine and (context or not rule.context)
        )


@dataclass
class _Merged:
    layouts: dict[str, Layout] = field(default_factory=dict)
    wrappers: dict[str, Wrapper] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    packs: list[Mapping[str, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def copy(self) -> _Merged:
        """Return one that can be changed by itself."""
        return _Merged(
            dict(self.layouts), dict(self.wrappers), dict(self.rules), dict(self.kinds),
            list(self.packs), list(self.problems),
        )  # fmt: skip


def open_pack(path: Path) -> Pack:
    """Read a pack from a folder, or a single event rule from a file."""
    if not path.is_dir():
        return Pack(str(path), {path.name: FileText(str(path), read_limited(path))})
    found = chain(path.rglob("*.yaml"), path.glob("detectors/*.py"))
    files = list(islice(found, _MOST_FILES + 1))
    if len(files) > _MOST_FILES:
        says = f"more than {_MOST_FILES:,} files of rules; a pack is a folder of its own"
        raise RuleError([Problem(str(path), 1, says)])
    root = path.resolve()
    if outside := sorted(str(file) for file in files if not file.resolve().is_relative_to(root)):
        says = "a link that leads out of the pack; copy the file into it"
        raise RuleError([Problem(name, 1, says) for name in outside])
    names = (file.relative_to(path).as_posix() for file in files)
    pages = {name: FileText(str(path / name), read_limited(path / name)) for name in names}
    return Pack(str(path), pages)


def open_packs(paths: Iterable[Path], patterns: Iterable[str] = ()) -> list[Pack]:
    """Read packs, and make one of the conversion patterns that the user pasted."""
    packs = [open_pack(path) for path in paths]
    pasted = list(dict.fromkeys(patterns))
    return [*packs, pack_patterns("--log-pattern", pasted, "pasted")] if pasted else packs


def pack_patterns(origin: str, patterns: Sequence[str], how: str) -> Pack:
    """Make a pack of conversion patterns; `how` says where they come from."""
    if len(patterns) > _MOST_PATTERNS:
        raise RuleError([Problem(origin, 1, f"more than {_MOST_PATTERNS} patterns")])
    pages = {}
    for number, pattern in enumerate(patterns, 1):
        node = {"id": f"{how} {number}", "pattern": pattern, "how": how}
        text = json.dumps(node | {"examples": [], "refuses": []})
        name = f"wrappers/{how}-{number}.yaml"
        pages[name] = FileText(origin, text.encode("utf-8", "replace"))
    return Pack(origin, pages)


def packs_to_json(packs: Sequence[Pack]) -> str:
    """Write packs as JSON, so that tasks can carry them to executors."""
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
            {name: FileText(f"{origin}/{name}", text.encode()) for name, text in pages.items()},
        )
        for origin, pages in json.loads(text or "[]")
    ]


def merge_packs(overlays: Sequence[Pack] = ()) -> tuple[RuleSet, list[Problem]]:
    """Lay packs over the shipped one, the last on top; return the rules and all problems."""
    merged = _merge_shipped().copy()
    for pack in overlays:
        _merge_pack(pack, merged)
    layouts = sort_layouts(merged.layouts.values())
    rules = RuleSet(
        layouts,
        tuple(merged.rules.values()),
        tuple(merged.packs),
        tuple(merged.wrappers.values()),
        tuple(overlays),
    )
    return rules, sorted(merged.problems)


def load_rule_set(overlays: Sequence[Pack] = ()) -> RuleSet:
    """Lay packs over the shipped one; raise one error that holds all problems."""
    rules, problems = merge_packs(overlays)
    if problems:
        raise RuleError(problems)
    return rules


@cache
def _merge_shipped() -> _Merged:
    # Reading it takes most of a second; nothing changes it while a process runs.
    merged = _Merged()
    _merge_pack(_shipped_pack(), merged)
    return merged


def _shipped_pack() -> Pack:
    folders = ("events", "layouts", "wrappers", "kinds", "detectors", "quality")
    pack = open_pack(rules_folder())
    pages = {
        name: page
        for name, page in pack.pages.items()
        if name in _NOT_RULES or name.partition("/")[0] in folders
    }
    return Pack(pack.origin, pages)


def _merge_pack(pack: Pack, merged: _Merged) -> None:
    problems = merged.problems
    if not pack.pages:
        problems.append(Problem(pack.origin, 1, "no rules here: there is no file *.yaml"))
    for disabled in _read_manifest(pack, merged):
        merged.rules.pop(disabled, None)
        merged.layouts.pop(disabled, None)
        merged.wrappers.pop(disabled, None)
    for page in pack.pages_in("kinds"):
        with collect_problems(problems, page.name):
            merged.kinds |= dict(read_kinds(page))
    rules: list[Rule] = []
    for page in pack.pages_in("events"):
        with collect_problems(problems, page.name):
            rules += load_rules([page], merged.kinds)
    problems += duplicate_ids((rule.id, rule.path) for rule in rules)
    merged.rules |= {rule.id: rule for rule in rules}
    layouts: list[Layout] = []
    for page in pack.pages_in("layouts"):
        with collect_problems(problems, page.name):
            layouts += load_layouts([page])
    problems += duplicate_ids((layout.id, layout.origin.file) for layout in layouts)
    merged.layouts |= {layout.id: layout for layout in layouts}
    wrappers: dict[str, Wrapper] = {}
    for page in pack.pages_in("wrappers"):
        with collect_problems(problems, page.name):
            (wrapper,) = load_wrappers([page])
            problems += duplicate_ids(
                (one.id, one.origin.file) for one in (*wrappers.values(), wrapper)
            )
            wrappers[wrapper.id] = wrapper
    # Of two that read the same lines the first is taken: that of the pack.
    merged.wrappers = wrappers | {
        name: one for name, one in merged.wrappers.items() if name not in wrappers
    }


def _read_manifest(pack: Pack, merged: _Merged) -> list[str]:
    """Read pack.yaml: note its name, version and digest, and return the ids it disables."""
    manifest: Mapping[str, Any] = {}
    if page := pack.pages.get(_MANIFEST):
        with collect_problems(merged.problems, page.name):
            manifest = load_yaml(page)
    name = str(manifest.get("name", Path(pack.origin).stem))
    version = str(manifest.get("version", ""))
    merged.packs.append({"name": name, "version": version, "sha256": pack.sha256})
    for message, key in _manifest_faults(manifest, merged):
        merged.problems.append(Problem(str(page), line_of(manifest, key), message))
    disable = manifest.get("disable")
    return [str(disabled) for disabled in disable] if isinstance(disable, list) else []


def _manifest_faults(manifest: Mapping[str, Any], merged: _Merged) -> Iterator[tuple[str, str]]:
    for key in manifest:
        if key not in _PACK_KEYS:
            yield f"unknown key {key!r}; known: {sorted(_PACK_KEYS)}", key
    needed = str(manifest.get("needs", __version__))
    if version_numbers(needed) > version_numbers(__version__):
        yield f"needs kafka-forensics {needed} or newer; this is {__version__}", "needs"
    disable = manifest.get("disable") or ()
    if not isinstance(disable, Sequence) or isinstance(disable, str):
        yield "'disable' must be a list of ids", "disable"
        return
    below = (merged.rules, merged.layouts, merged.wrappers)
    for disabled in map(str, disable):
        if not any(disabled in known for known in below):
            says = f"'disable' names {disabled!r}, which is no rule, layout or wrapper"
            yield says, "disable"


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions are ordered."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
