"""What collectors put around the lines of a log, and how to take it off many lines at once.

There are four ways to wrap a line: to put something before it, to make it a string in a JSON
object, to write its parts as such an object (it is then rewritten as the plain record that Kafka
would have written), and to colour it. rules/wrappers/ says which collector does what.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import Problem, RuleError
from forensics.ingest.record_starts import Flags, Offsets
from forensics.ingest.text_buffer import (
    TextBuffer,
    find_escapes,
    gather_texts,
    slice_texts,
    string_ends,
    to_buffer,
    unescape,
)
from forensics.lib.log_templates import TemplateError, compile_template
from forensics.lib.yaml_with_lines import line_of, load_yaml, rule_files

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
}
# A colon may have blanks around it. Inside a string every quote has a backslash before it, so these
# are only found where a key is.
_KEY_ENDS = ('":"', '": "', '" : "')
_BRACE = ord("{")
_NULL = pa.scalar(None, pa.binary())
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
# How an object holds its time: as text, in milliseconds, or in seconds and nanoseconds.
_TIME_FORMS = ("time", "millis", "instant")
_ISO_TIME = (
    r"^(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,](?P<part>[0-9]{1,3})[0-9]*)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?$"
)
_FIRST_LINE = r"^(?P<first>[^\r\n]*)(?P<rest>(?s:.*))$"
_NO_OFFSET = pa.array([b"", b"Z", b"+0000", b"+00:00", b"-0000", b"-00:00"], pa.binary())
_LEVEL, _LOGGER = "^[A-Za-z]+$", r"^[^\s()]+$"
# The fields that all wrappers have in common.
_Shared = tuple[str, tuple[Any, ...], tuple[Any, ...], Problem, bool]
_KEYS = {"id", "about", "match", "json", "record", "remove", "torn", "examples", "refuses"}
_WAYS = ("match", "json", "record", "remove")


@dataclass(frozen=True)
class Wrapper(ABC):
    """One wrapper; `origin` is the file that defines it."""

    # Whether it gives whole records, whatever the lines were before.
    makes_records: ClassVar[bool] = False

    id: str
    examples: tuple[Mapping[str, Any], ...]
    refuses: tuple[str, ...]
    origin: Problem
    # Whether a line may go on in the next one.
    splits_lines: bool

    @abstractmethod
    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if one line may be wrapped: a cheap check before `unwrap`."""

    @abstractmethod
    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take the wrapper off all texts that have it; the others stay as they are."""


@dataclass(frozen=True)
class PrefixWrapper(Wrapper):
    """Something stands before each line; a part of it may name who wrote the line."""

    pattern: str
    hint: re.Pattern[bytes]
    torn: str | None

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line begins with the prefix."""
        return self.hint.match(line, 0, _REACH) is not None

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
        origins = texts.origins
        if fields.type.get_field_index("origin") >= 0:
            origins = pc.fill_null(fields.field("origin"), b"")
            if texts.origins is not None:
                origins = pc.binary_join_element_wise(texts.origins, origins, b" ")
        return TextBuffer(data, bounds, carried, texts.continues | torn, origins)


@dataclass(frozen=True)
class JsonStringWrapper(Wrapper):
    """Each line is a string in a JSON object, under one key."""

    key: str
    min_split_length: int | None

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line may be such an object."""
        ends = (f'"{self.key}{end}'.encode() for end in _KEY_ENDS)
        return line[:1] == b"{" and any(end in line for end in ends)

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Take the strings out of their objects."""
        data, leads = texts.data.copy(), find_escapes(texts.content)
        begins, ends, held = _find_strings(texts, texts.to_arrow(), leads, self.key)
        # The string may end with the line's break, or else its closing quote makes room for one.
        breaks = np.zeros(len(data), np.bool_)
        breaks[leads] = data[leads + 1] == ord("n")
        whole = held & (ends - begins > 1) & breaks[ends - 2 * held]
        torn = np.zeros(len(texts), np.bool_)
        if self.min_split_length is not None:
            torn = held & ~whole & (ends - begins >= self.min_split_length)
        added = held & ~whole & ~torn
        data[ends[added]] = _NEWLINE
        data, bounds = gather_texts(data, begins, np.where(held, ends + added, texts.stops))
        data, bounds = unescape(data, bounds, held)
        carried = whole if self.splits_lines else held
        return TextBuffer(data, bounds, carried, texts.continues | torn, texts.origins)


@dataclass(frozen=True)
class JsonRecordWrapper(Wrapper):
    """Each line is an object with the parts of one record, under these keys."""

    makes_records: ClassVar[bool] = True

    # one of _TIME_FORMS, and the keys that hold the time in this form
    time_form: str
    time_keys: tuple[str, ...]
    level: str
    logger: str
    message: str
    # what stands below the message, such as a stack trace
    more: str | None

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line may be such an object."""
        keys = (*self.time_keys, self.level, self.logger, self.message)
        return line[:1] == b"{" and all(f'"{key}"'.encode() in line for key in keys)

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Write the objects as plain records; all other lines stay as they are."""
        lines, leads = texts.to_arrow(), find_escapes(texts.content)
        message = pc.extract_regex(_read_strings(texts, lines, leads, self.message), _FIRST_LINE)
        below = message.field("rest")
        if self.more is not None:
            stack = _read_strings(texts, lines, leads, self.more)
            stack = pc.binary_join_element_wise(b"\n", stack, b"")
            below = pc.binary_join_element_wise(below, pc.fill_null(stack, b""), b"")
        level = _only_matching(_read_strings(texts, lines, leads, self.level), _LEVEL)
        logger = _only_matching(_read_strings(texts, lines, leads, self.logger), _LOGGER)
        parts = (
            b"[", self._read_times(texts, lines, leads), b"] ", level, b" ",
            pc.struct_field(message, "first"), b" (", logger, b")", below, b"\n",
        )  # fmt: skip
        records = pc.binary_join_element_wise(*parts, b"")
        data, bounds = to_buffer(pc.coalesce(records, lines))
        carried = records.is_valid().to_numpy(zero_copy_only=False)
        return replace(texts, data=data, bounds=bounds, carried=carried)

    def _read_times(self, texts: TextBuffer, lines: pa.Array, leads: Offsets) -> pa.Array:
        """Return the time of each line as Kafka's own layout writes it; null if there is none."""
        if self.time_form == "time":
            return _from_iso(_read_strings(texts, lines, leads, self.time_keys[0]))
        if self.time_form == "millis":
            return _from_millis(_read_numbers(lines, self.time_keys[0], 14))
        seconds, nanos = (_read_numbers(lines, key, 11) for key in self.time_keys)
        return _from_millis(pc.add(pc.multiply(seconds, 1000), pc.divide(nanos, 1_000_000)))


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


def load_wrappers(paths: Sequence[Path] | None = None) -> tuple[Wrapper, ...]:
    """Read the wrappers; one error names all problems."""
    wrappers, problems = [], []
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


def _load_wrapper(path: Path, node: Mapping[str, Any]) -> Wrapper:
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
    if "json" in node:
        return JsonStringWrapper(*shared, node["json"], node.get("torn"))
    if "record" in node:
        return _load_record(path, node, shared)
    if "remove" in node:
        return CodeWrapper(*shared, node["remove"], re.compile(node["remove"].encode()))
    front, line, after = node["match"].partition(_LINE)
    template = compile_template(front, _TYPES)
    if not line or after or not template.literals or set(template.fields) - {"origin", "torn"}:
        says = f"'match' must end with {_LINE}, and may capture {{origin}} and {{torn}} before it"
        raise RuleError([Problem(str(path), line_of(node, "match"), says)])
    pattern = f"^(?P<whole>{template.body})"
    return PrefixWrapper(*shared, pattern, re.compile(pattern.encode()), node.get("torn"))


def _load_record(path: Path, node: Mapping[str, Any], shared: _Shared) -> JsonRecordWrapper:
    keys = node["record"]
    forms = [form for form in _TIME_FORMS if form in keys]
    unknown = sorted(set(keys) - {"level", "logger", "message", "more", *forms})
    missing = sorted({"level", "logger", "message"} - set(keys))
    if len(forms) != 1 or unknown or missing:
        if len(forms) != 1:
            says = f"must have one of {', '.join(_TIME_FORMS)}"
        else:
            says = f"has an unknown key {unknown[0]!r}" if unknown else f"has no {missing[0]!r}"
        raise RuleError([Problem(str(path), line_of(node, "record"), f"'record' {says}")])
    times = keys[forms[0]]
    return JsonRecordWrapper(
        *shared,
        time_form=forms[0],
        time_keys=(times,) if isinstance(times, str) else tuple(times),
        level=keys["level"],
        logger=keys["logger"],
        message=keys["message"],
        more=keys.get("more"),
    )


def _find_strings(
    texts: TextBuffer, lines: pa.Array, leads: Offsets, key: str
) -> tuple[Offsets, Offsets, Flags]:
    """Find where the string under a key of each object lies, and which lines have such a string.

    For the other lines, the whole line is given.
    """
    begins = np.full(len(texts), -1, np.int64)
    is_object = (texts.data[texts.starts] == _BRACE) & (texts.stops > texts.starts)
    for key_end in _KEY_ENDS:
        left = np.flatnonzero(is_object & (begins < 0))
        if not len(left):
            break
        some = lines if len(left) == len(texts) else lines.take(pa.array(left))
        before = f'"{key}{key_end}'
        found = pc.find_substring(some, before).to_numpy()
        begins[left] = np.where(found >= 0, texts.starts[left] + found + len(before), -1)
    ends = string_ends(texts.content, leads, np.maximum(begins, 0))
    held = (begins >= 0) & (ends < texts.stops)
    return np.where(held, begins, texts.starts), ends, held


def _read_strings(texts: TextBuffer, lines: pa.Array, leads: Offsets, key: str) -> pa.Array:
    """Return the string under a key of each object, unescaped; null where there is none."""
    begins, ends, held = _find_strings(texts, lines, leads, key)
    data, bounds = gather_texts(texts.data, begins, np.where(held, ends, texts.starts))
    data, bounds = unescape(data, bounds, held)
    return pc.if_else(pa.array(held), slice_texts(data, bounds[:-1], bounds[1:]), _NULL)


def _read_numbers(lines: pa.Array, key: str, digits: int) -> pa.Array:
    """Read the number under a key; one with more digits is no time of this world."""
    fields = pc.extract_regex(lines, rf'"{key}" ?: ?(?P<number>[0-9]{{1,{digits}}})[ ,}}]')
    return pc.struct_field(fields, "number").cast(pa.string()).cast(pa.int64())


def _only_matching(texts: pa.Array, pattern: str) -> pa.Array:
    """Replace by null what would break the line that it becomes a part of."""
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, _NULL)


def _from_millis(millis: pa.Array) -> pa.Array:
    text = pc.strftime(millis.cast(pa.timestamp("ms")), format=_TIME_FORMAT)
    return pc.replace_substring(text, ".", ",").cast(pa.binary())


def _from_iso(texts: pa.Array) -> pa.Array:
    """Read ISO 8601; a time with an offset is brought to UTC, one without stays as it is."""
    fields = pc.extract_regex(texts, _ISO_TIME)
    day, clock, part, zone = (
        pc.struct_field(fields, name) for name in ("day", "clock", "part", "zone")
    )
    part = pc.binary_slice(pc.binary_join_element_wise(part, b"000", b""), 0, 3)
    seconds = pc.binary_join_element_wise(day, clock, b" ")
    has_offset = pc.and_(fields.is_valid(), pc.invert(pc.is_in(zone, value_set=_NO_OFFSET)))
    if not pc.any(has_offset).as_py():
        return pc.binary_join_element_wise(seconds, part, b",")
    moments = pc.strptime(
        seconds.cast(pa.string()), format=_TIME_FORMAT, unit="ms", error_is_null=True
    )
    millis = pc.add(moments.cast(pa.int64()), part.cast(pa.string()).cast(pa.int64()))
    minutes = _read_offsets(pc.if_else(has_offset, zone, b"+0000").cast(pa.string()))
    return _from_millis(pc.subtract(millis, pc.multiply(minutes, 60_000)))


def _read_offsets(zones: pa.Array) -> pa.Array:
    """Read offsets such as +05:30 as minutes; nearly all lines have the same one."""
    codes = zones.dictionary_encode()
    minutes = []
    for zone in codes.dictionary.to_pylist():
        digits = zone[1:].replace(":", "")
        size = int(digits[:2]) * 60 + int(digits[2:])
        minutes.append(-size if zone.startswith("-") else size)
    return pa.array(minutes, pa.int64()).take(codes.indices)
