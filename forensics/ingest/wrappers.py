"""What collectors put around the lines of a log, and how to take it off many lines at once.

There are four ways to wrap a line: to put something before it, to put it into a JSON object or into
pairs of keys and values, whole or in parts (json_wrappers.py), and to colour it. rules/wrappers/
says which collector does what.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import Problem, RuleError
from forensics.ingest.conversion_patterns import PatternError, read_pattern
from forensics.ingest.json_objects import ROLES
from forensics.ingest.json_wrappers import JsonWrapper, PairsWrapper
from forensics.ingest.level_formats import is_level
from forensics.ingest.record_starts import Bytes, Flags, Offsets, find_strays
from forensics.ingest.text_buffer import (
    TextBuffer,
    gather_texts,
    holds_breaks,
    slice_texts,
    to_buffer,
    undo_breaks,
    unescape,
)
from forensics.ingest.wrapper_base import GUESSED, Wrapper
from forensics.lib.log_templates import TemplateError, compile_template
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, rule_files

__all__ = [
    "ESCAPED_BREAKS",
    "PADDING",
    "CodeWrapper",
    "FoundEnd",
    "FoundPrefix",
    "JsonWrapper",
    "PairsWrapper",
    "PrefixWrapper",
    "Wrapper",
    "found_end",
    "found_prefix",
    "load_wrappers",
]

# A prefix is looked for in so many bytes of a line: no hostile line can cost more.
_REACH = 256
_LINE = "{line}"
_NEWLINE = ord("\n")
_DATE, _CLOCK = "[0-9]+-[0-9]+-[0-9]+", "[0-9]+:[0-9]+:[0-9]+"
_ZONE = "(?:Z|[+-][0-9]+:?[0-9]+)"
_TYPES = {
    "stamp": rf"{_DATE}T{_CLOCK}(?:[.,][0-9]+)?{_ZONE}",
    # Collectors write nanoseconds; a log's own layout has milliseconds at most.
    "nanos": rf"{_DATE}T{_CLOCK}\.{'[0-9]' * 6}[0-9]*{_ZONE}",
    "day": rf"[A-Z][a-z]+ [ 0-9]?[0-9] {_CLOCK}(?:\.[0-9]+)?",
    "name": r"[A-Za-z0-9][\w.@-]*",
    "stream": "stdout|stderr",
    "flag": "[FP]",
    "tags": "(?::[^ \n]*)?",
    "nonblank": "[^ \n]+",
    "tag": r"[^ \n]+ [^ \n:\[]+",
    "pid": r"(?:\[[0-9]+\])?",
    "priority": "(?:<[0-9]+>)?",
    "details": r'(?:-|(?:\[(?:[^"\]\n]|"[^"\n]*")*\])+)',
    "python": rf"{_DATE}T{_CLOCK}\.{'[0-9]' * 6}\+00:00",
    "unbracketed": r"[^ \n\[]+",
    "labels": r"\{[^\n]*?\}",
    "gap": " ?",
    "writer": r"[^\x01\n]*",
}
# A line break that is escaped before the quote that closes a line.
ESCAPED_END = r"(?:\\r)?(?:\\n)?"
_WAYS = ("match", "json", "pairs", "remove", "pattern")
_KEYS = {"id", "about", *_WAYS, "how", "torn", "examples", "refuses"}


@dataclass(frozen=True)
class PrefixWrapper(Wrapper):
    """Something stands before each line; a part of it may name who wrote the line."""

    # What is taken off lines, and what proves that a line has it, which may be stricter.
    pattern: str
    hint: re.Pattern[bytes]
    torn: str | None

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line begins with the prefix."""
        found = self.hint.match(line, 0, _REACH)
        if found is None:
            return False
        # Wrappers of Java services write a level where others have a name.
        return not is_level(found.groupdict().get("origin") or b"")

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take off what stands before the lines."""
        starts, stops = texts.starts, texts.stops
        fronts = slice_texts(texts.data, starts, np.minimum(stops, starts + _REACH))
        fields = pc.extract_regex(fronts, self.pattern)
        carried = fields.is_valid().to_numpy(zero_copy_only=False)
        widths = pc.fill_null(pc.binary_length(fields.field("whole")), 0).to_numpy()
        torn = np.zeros(len(texts), np.bool_)
        if self.torn is not None:
            flags = pc.equal(fields.field("torn"), pa.scalar(self.torn.encode(), pa.binary()))
            torn = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
        begins = starts + widths
        # A line that goes on loses its break.
        broken = torn & (stops > begins) & (texts.data[np.maximum(stops - 1, 0)] == _NEWLINE)
        data, bounds = gather_texts(texts.data, begins, stops - broken)
        if b"#01" in data.tobytes():
            data, bounds = _write_controls(data, bounds, carried)
        origins = texts.origins
        if fields.type.get_field_index("origin") >= 0:
            origins = pc.fill_null(fields.field("origin"), b"")
            if texts.origins is None and not carried.all():
                # A collector may write its prefix once for a record of several lines.
                strays = find_strays(data, bounds[:-1], bounds[1:])
                below = pa.array(~(carried | strays))
                origins = pc.if_else(below, pa.scalar(None, pa.binary()), origins)
            if texts.origins is not None:
                origins = pc.binary_join_element_wise(texts.origins, origins, b" ")
        return TextBuffer(data, bounds, carried, texts.continues | torn, origins)


def _write_controls(data: Bytes, bounds: Offsets, wanted: Flags) -> tuple[Bytes, Offsets]:
    """Undo what rsyslog makes of tabs and line breaks: `#011` and `#012`.

    Such a line begins with a tab, or a break is followed by what follows breaks in stack traces.
    """
    lines = slice_texts(data, bounds[:-1], bounds[1:])
    looks = pc.match_substring_regex(
        lines, r"^#011|#012(?:#011|[\w.$]+(?:Exception|Error|: )|\s|$)"
    )
    rows = np.flatnonzero(looks.to_numpy(zero_copy_only=False) & wanted)
    if not len(rows):
        return data, bounds
    some = lines.take(pa.array(rows))
    for code, sign in (("#011", "\t"), ("#012", "\n"), ("#015", "\r")):
        some = pc.replace_substring(some, code, sign)
    mask = np.zeros(len(lines), np.bool_)
    mask[rows] = True
    return to_buffer(pc.replace_with_mask(lines, pa.array(mask), some))


@dataclass(frozen=True)
class CodeWrapper(Wrapper):
    """Codes stand anywhere in the lines, such as colours."""

    pattern: str
    hint: re.Pattern[bytes]

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line holds such a code."""
        return self.hint.search(line, 0, _REACH) is not None

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take out all codes."""
        data, bounds = to_buffer(pc.replace_substring_regex(texts.to_arrow(), self.pattern, ""))
        carried = np.diff(bounds) < np.diff(texts.bounds)
        return replace(texts, data=data, bounds=bounds, carried=carried)


@dataclass(frozen=True)
class FoundPrefix(PrefixWrapper):
    """What stands before every line of a file; lines without it stay as they are."""

    @property
    def names_writer(self) -> bool:
        """Whether a part of it may name who wrote a line."""
        return "(?P<origin>" in self.pattern

    def without_writer(self) -> FoundPrefix:
        """Return the prefix with no name in it."""
        pattern = self.pattern.replace("(?P<origin>", "(?:")
        return replace(self, pattern=pattern, hint=re.compile(pattern.encode()))

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take it off; a line without it belongs to whoever wrote the line above."""
        opened = super().unwrap(texts)
        if opened.origins is None or texts.origins is not None:
            # What a collector says of its lines goes before what stands in them.
            return replace(opened, origins=texts.origins)
        nobody = pa.scalar(None, pa.binary())
        guessed = pc.binary_join_element_wise(GUESSED.encode(), opened.origins, b"")
        return replace(opened, origins=pc.if_else(pa.array(opened.carried), guessed, nobody))


@dataclass(frozen=True)
class FoundEnd(Wrapper):
    """What ends every line of a file, such as a quote or a name."""

    pattern: str
    # The same, where it captures who wrote a line.
    named: str | None = None

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line ends so."""
        return re.search(self.pattern.encode(), line) is not None

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take it off; it may name who wrote a line."""
        before = texts.to_arrow()
        lines = pc.replace_substring_regex(before, self.pattern, r"\1")
        data, bounds = to_buffer(lines)
        carried = np.diff(bounds) < np.diff(texts.bounds)
        if self.id.startswith('"') or self.pattern.startswith(ESCAPED_END):
            # The strings of JSON have escapes.
            data, bounds = unescape(data, bounds, carried)
        elif self.id.startswith("'"):
            data, bounds = to_buffer(pc.replace_substring(lines, "''", "'"))
        elif self.id.startswith("<"):
            data, bounds = to_buffer(_undo_references(lines))
        elif self.id.endswith("$"):
            # `cat -A` and `sed -n l` show tabs, and where lines end.
            data, bounds = to_buffer(pc.replace_substring_regex(lines, r"\^I|^\\t", "\t"))
        origins = texts.origins
        if origins is None and self.named is not None:
            origins = pc.extract_regex(before, self.named).field("origin")
            origins = pc.binary_join_element_wise(GUESSED.encode(), origins, b"")
        return replace(texts, data=data, bounds=bounds, carried=carried, origins=origins)


def _undo_references(lines: pa.Array) -> pa.Array:
    """Undo the references to characters in lines of HTML."""
    rows = np.flatnonzero(pc.match_substring(lines, "&").to_numpy(zero_copy_only=False))
    mask = np.zeros(len(lines), np.bool_)
    mask[rows] = True
    plain = [
        html.unescape(one.decode("utf-8", "surrogateescape"))
        .replace("\xa0", " ")
        .encode("utf-8", "surrogateescape")
        for one in lines.take(pa.array(rows)).to_pylist()
    ]
    return pc.replace_with_mask(lines, pa.array(mask), pa.array(plain, pa.binary()))


@dataclass(frozen=True)
class EscapedBreaks(Wrapper):
    """Line breaks and tabs of records are escaped, so that each record is one line."""

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line holds such a break."""
        return holds_breaks(np.frombuffer(line, np.uint8))

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Undo them."""
        everywhere = np.ones(len(texts), np.bool_)
        data, bounds = to_buffer(undo_breaks(texts.to_arrow(), everywhere))
        carried = np.diff(bounds) < np.diff(texts.bounds)
        return replace(texts, data=data, bounds=bounds, carried=carried)


ESCAPED_BREAKS = EscapedBreaks("escaped", (), (), Problem("", 1, "escaped"), splits_lines=False)


def found_prefix(pattern: str, shown: str) -> FoundPrefix:
    """Build the wrapper for a prefix; the pattern may capture `origin`."""
    whole = f"^(?P<whole>{pattern})"
    return FoundPrefix(
        shown, (), (), Problem("", 1, shown), False, whole, re.compile(whole.encode()), None
    )


def found_end(text: str, pattern: str | None = None) -> FoundEnd:
    """Build the wrapper for what ends lines; its pattern may capture `origin`."""
    own = re.escape(text) if pattern is None else pattern
    whole = own.replace("?P<origin>", "?:") + r"(\r*\n?)$"
    named = rf"{own}\r*\n?$" if "?P<origin>" in own else None
    return FoundEnd(text, (), (), Problem("", 1, text), False, whole, named)


# Blanks that end all lines.
PADDING = found_end("blanks", r"[ \t]+")


def load_wrappers(paths: Sequence[Path | FileText] | None = None) -> tuple[Wrapper, ...]:
    """Read wrappers, the shipped ones if no files are named; one error names all problems."""
    wrappers: list[Wrapper] = []
    problems: list[Problem] = []
    for path in rule_files("wrappers") if paths is None else paths:
        try:
            wrappers.append(_load_wrapper(path, load_yaml(path)))
        except RuleError as error:
            problems += error.problems
        except (TemplateError, re.error) as error:
            problems.append(Problem(str(path), 1, str(error)))
    if problems:
        raise RuleError(problems)
    return tuple(sorted(wrappers, key=lambda wrapper: wrapper.id))


def _load_wrapper(path: Path | FileText, node: Mapping[str, Any]) -> Wrapper:
    unknown = sorted(set(node) - _KEYS)
    missing = sorted({"id", "examples", "refuses"} - set(node))
    if unknown or missing or len(set(_WAYS) & set(node)) != 1:
        says = f"unknown key {unknown[0]!r}" if unknown else f"no {missing[0]!r}" if missing else ""
        says = says or f"must have one of {', '.join(_WAYS)}"
        line = line_of(node, unknown[0]) if unknown else 1
        raise RuleError([Problem(str(path), line, f"wrapper: {says}")])
    shared = (
        str(node["id"]),
        tuple(node["examples"]),
        tuple(node["refuses"]),
        Problem(str(path), 1, str(node["id"])),
        "torn" in node,
    )
    if "pattern" in node:
        return _read_layout(path, node)
    if "json" in node:
        return JsonWrapper(*shared, _read_names(path, node, "json"), node.get("torn"))
    if "pairs" in node:
        return PairsWrapper(*shared, _read_names(path, node, "pairs"))
    if "remove" in node:
        return CodeWrapper(*shared, node["remove"], re.compile(node["remove"].encode()))
    front, line, after = node["match"].partition(_LINE)
    template = compile_template(front, _TYPES)
    if not line or after or not template.literals or set(template.fields) - {"origin", "torn"}:
        says = f"'match' must end with {_LINE}, and may capture {{origin}} and {{torn}} before it"
        raise RuleError([Problem(str(path), line_of(node, "match"), says)])
    # Collectors trim zeros: where most lines have nanoseconds, all times are theirs.
    loose = compile_template(front.replace("{:nanos}", "{:stamp}"), _TYPES).body
    hint = re.compile(f"^(?P<whole>{template.body})".encode())
    return PrefixWrapper(*shared, f"^(?P<whole>{loose})", hint, node.get("torn"))


def _read_layout(path: Path | FileText, node: Mapping[str, Any]) -> Wrapper:
    """Read a layout that is given by a conversion pattern of log4j, Log4j 2 or Logback."""
    try:
        layout = read_pattern(str(node["pattern"]), str(node.get("how", "known")))
    except PatternError as error:
        raise RuleError([Problem(str(path), line_of(node, "pattern"), str(error))]) from None
    origin = Problem(str(path), 1, str(node["id"]))
    examples, refuses = tuple(node["examples"]), tuple(node["refuses"])
    return replace(layout, origin=origin, examples=examples, refuses=refuses)


def _read_names(
    path: Path | FileText, node: Mapping[str, Any], way: str
) -> Mapping[str, tuple[str, ...]]:
    """Read which keys hold what: a name or a list of names for each part."""
    keys = node[way]
    says = ""
    if not isinstance(keys, Mapping) or "message" not in keys:
        says = f"'{way}' must name the keys of 'message'"
    elif unknown := sorted(set(keys) - set(ROLES)):
        says = f"'{way}' has an unknown part {unknown[0]!r}; known: {', '.join(ROLES)}"
    names = {
        role: (one,) if isinstance(one, str) else one
        for role, one in (keys.items() if isinstance(keys, Mapping) else ())
    }
    for role, some in names.items():
        if not isinstance(some, Sequence) or not all(isinstance(one, str) for one in some):
            says = says or f"'{way}' must name keys of {role!r}: one, or a list"
    if says:
        raise RuleError([Problem(str(path), line_of(node, way), says)])
    return {role: tuple(some) for role, some in names.items()}
