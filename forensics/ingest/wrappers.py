"""What collectors put around the lines of a log, and how it is taken off many lines at once.

There are four ways to wrap a line: to put something before it, to make it a string in a JSON
object, to write its parts as such an object, and to colour it. Which collector does what is said in
rules/wrappers/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import Problem, RuleError
from forensics.ingest.json_records import (
    KEY_ENDS,
    TIME_KEYS,
    JsonRecordWrapper,
    check_record_keys,
    find_strings,
)
from forensics.ingest.text_buffer import (
    TextBuffer,
    find_escapes,
    gather_texts,
    slice_texts,
    string_ends,
    to_buffer,
    unescape,
)
from forensics.ingest.wrapper_base import Wrapper
from forensics.lib.log_templates import TemplateError, compile_template
from forensics.lib.yaml_with_lines import line_of, load_yaml, rule_files

# What stands before a line is looked for in this much of it: no hostile line can cost more.
_REACH = 256
_LINE = "{line}"
_NEWLINE = ord("\n")
_DATE, _CLOCK = "[0-9]+-[0-9]+-[0-9]+", "[0-9]+:[0-9]+:[0-9]+"
_ZONE = "(?:Z|[+-][0-9]+:?[0-9]+)"
_TYPES = {
    "stamp": rf"{_DATE}T{_CLOCK}(?:[.,][0-9]+)?{_ZONE}",
    # Collectors count nanoseconds; a log's own layout does with milliseconds.
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
}
# What all ways have in common.
_Shared = tuple[str, tuple[Any, ...], tuple[Any, ...], Problem, bool]
_KEYS = {"id", "about", "match", "json", "record", "remove", "torn", "examples", "refuses"}
_WAYS = ("match", "json", "record", "remove")


@dataclass(frozen=True)
class PrefixWrapper(Wrapper):
    """Something stands before each line; a part of it may name who wrote the line."""

    pattern: str
    hint: re.Pattern[bytes]
    torn: str | None

    def looks_wrapped(self, line: bytes) -> bool:
        """Whether one line begins so."""
        return self.hint.match(line, 0, _REACH) is not None

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take off what stands before the lines."""
        starts, stops = texts.starts, texts.stops
        fronts = slice_texts(texts.data, starts, np.minimum(stops, starts + _REACH))
        found = pc.extract_regex(fronts, self.pattern)
        carried = found.is_valid().to_numpy(zero_copy_only=False)
        widths = pc.fill_null(pc.binary_length(found.field("whole")), 0).to_numpy()
        torn = np.zeros(len(texts), np.bool_)
        if self.torn is not None:
            flags = pc.equal(found.field("torn"), pa.scalar(self.torn.encode(), pa.binary()))
            torn = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
        begins = starts + widths
        # A line that goes on loses its break.
        broken = torn & (stops > begins) & (texts.data[np.maximum(stops - 1, 0)] == _NEWLINE)
        data, bounds = gather_texts(texts.data, begins, stops - broken)
        origins = texts.origins
        if found.type.get_field_index("origin") >= 0:
            named = pc.fill_null(found.field("origin"), b"")
            if origins is not None:
                named = pc.binary_join_element_wise(origins, named, b" ")
            origins = named
        return TextBuffer(data, bounds, carried, texts.continues | torn, origins)


@dataclass(frozen=True)
class JsonStringWrapper(Wrapper):
    """Each line is a string in a JSON object, under one key."""

    key: str
    min_split_length: int | None

    def looks_wrapped(self, line: bytes) -> bool:
        """Whether one line may be such an object."""
        return line[:1] == b"{" and any(
            f'"{self.key}{colon}'.encode() in line for colon in KEY_ENDS
        )

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take the strings out of their objects."""
        data, starts, stops = texts.data.copy(), texts.starts, texts.stops
        lines = slice_texts(texts.data, starts, stops)
        begins = find_strings(texts, lines, self.key)
        leads = find_escapes(data[: int(texts.bounds[-1])])
        ends = string_ends(data[: int(texts.bounds[-1])], leads, np.maximum(begins, 0))
        held = (begins >= 0) & (ends < stops)
        # The string may end with the line's break, or else its closing quote makes room for one.
        breaks = np.zeros(len(data), np.bool_)
        breaks[leads] = data[leads + 1] == ord("n")
        whole = held & (ends - begins > 1) & breaks[ends - 2 * held]
        torn = np.zeros(len(texts), np.bool_)
        if self.min_split_length is not None:
            torn = held & ~whole & (ends - begins >= self.min_split_length)
        added = held & ~whole & ~torn
        data[ends[added]] = _NEWLINE
        data, bounds = gather_texts(
            data, np.where(held, begins, starts), np.where(held, ends + added, stops)
        )
        data, bounds = unescape(data, bounds, held)
        carried = whole if self.splits_lines else held
        return TextBuffer(data, bounds, carried, texts.continues | torn, texts.origins)


@dataclass(frozen=True)
class CodeWrapper(Wrapper):
    """Codes stand anywhere in the lines, such as colours."""

    pattern: str
    hint: re.Pattern[bytes]

    def looks_wrapped(self, line: bytes) -> bool:
        """Whether one line holds such a code."""
        return self.hint.search(line, 0, _REACH) is not None

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take out all codes."""
        lines = slice_texts(texts.data, texts.starts, texts.stops)
        data, bounds = to_buffer(pc.replace_substring_regex(lines, self.pattern, ""))
        carried = np.diff(bounds) < np.diff(texts.bounds)
        return replace(texts, data=data, bounds=bounds, carried=carried)


def load_wrappers(paths: Sequence[Path] | None = None) -> tuple[Wrapper, ...]:
    """Read the wrappers; raises one error with every problem found."""
    wrappers, problems = [], []
    for path in rule_files("wrappers") if paths is None else paths:
        try:
            wrappers.append(_wrapper(path, load_yaml(path)))
        except RuleError as error:
            problems += error.problems
        except (TemplateError, re.error) as error:
            problems.append(Problem(str(path), 1, str(error)))
    if problems:
        raise RuleError(problems)
    return tuple(sorted(wrappers, key=lambda wrapper: wrapper.id))


def _wrapper(path: Path, node: Mapping[str, Any]) -> Wrapper:
    ways = [way for way in _WAYS if way in node]
    unknown = sorted(set(node) - _KEYS)
    missing = sorted({"id", "examples", "refuses"} - set(node))
    if unknown or missing or len(ways) != 1:
        says = f"unknown key {unknown[0]!r}" if unknown else f"no {missing[0]!r}" if missing else ""
        says = says or f"must have one of {', '.join(_WAYS)}"
        at = line_of(node, unknown[0]) if unknown else 1
        raise RuleError([Problem(str(path), at, f"wrapper: {says}")])
    shared = (
        str(node["id"]),
        tuple(node["examples"]),
        tuple(node["refuses"]),
        Problem(str(path), 1, str(node["id"])),
        "torn" in node,
    )
    if "json" in node:
        return JsonStringWrapper(*shared, node["json"], node.get("torn"))
    if "record" in node:
        return _record(path, node, shared)
    if "remove" in node:
        return CodeWrapper(*shared, node["remove"], re.compile(node["remove"].encode()))
    front, line, after = node["match"].partition(_LINE)
    template = compile_template(front, _TYPES)
    if not line or after or not template.literals or set(template.fields) - {"origin", "torn"}:
        says = f"'match' must end with {_LINE}, and may capture {{origin}} and {{torn}} before it"
        raise RuleError([Problem(str(path), line_of(node, "match"), says)])
    pattern = f"^(?P<whole>{template.body})"
    return PrefixWrapper(*shared, pattern, re.compile(pattern.encode()), node.get("torn"))


def _record(path: Path, node: Mapping[str, Any], shared: _Shared) -> JsonRecordWrapper:
    keys = node["record"]
    problems = check_record_keys(keys)
    if problems:
        raise RuleError([Problem(str(path), line_of(node, "record"), problems[0])])
    clock = next(one for one in TIME_KEYS if one in keys)
    clocks = (keys[clock],) if isinstance(keys[clock], str) else tuple(keys[clock])
    return JsonRecordWrapper(
        *shared,
        clock=clock,
        clocks=clocks,
        level=keys["level"],
        logger=keys["logger"],
        message=keys["message"],
        more=keys.get("more"),
    )
