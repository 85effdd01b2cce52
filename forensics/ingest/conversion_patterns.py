"""Conversion patterns of log4j, Log4j 2 and Logback, made into layouts.

A pattern such as `[%d] %p %m (%c)%n` says how every record is written, so nothing has to be
inferred. Users paste one, and bundles hold the configuration that a process logged by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import unescape

import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import ForensicsError
from forensics.ingest.inferred_layout import FoundLayout, found_layout
from forensics.ingest.level_formats import LEVEL
from forensics.ingest.time_formats import MONTH, ZONE, TimeForm

# So long may a pattern be, so many conversion words may it have, and so deep may groups stand.
_MAX_CHARS, _MAX_WORDS, _MAX_DEPTH = 2000, 64, 8
# So many of the lines that nothing reads must be those of a pattern; others belong to messages.
_FITTING_SHARE = 0.1
# So many patterns of one file are tried.
_MAX_PATTERNS = 16
_CLASS, _FREE, _BLANKS = r"[\w.$-]+", r"[^\n]*?", r"[ \t]*"
_CLOSING = "])}>|\"'"
# What tells the logger, the best first; the first bracket is that of the capture.
_LOGGERS = {
    "logger": rf"({_CLASS})",
    "class": rf"({_CLASS})",
    "location": r"([\w.$]+)\.[\w$<>]+\([^()\n]*\)",
    "file": r"([\w$-]+)\.(?:java|scala|kt)",
}

_NAMES = {
    "time": "d date",
    "level": "p le level",
    "logger": "c lo logger",
    "class": "C class fqcn",
    "location": "l location caller",
    "file": "F file",
    "message": "m msg message",
    "end": "n",
    "nothing": "ex exception throwable xEx xException xThrowable rEx rException rThrowable wEx wex"
    " nopex nopexception rootException",
    # what stands in a pattern of its own: the first option, or parentheses
    "group": "highlight style clr enc encode maxLen maxLength replace black red green yellow blue"
    " magenta cyan white gray boldRed boldGreen boldYellow boldBlue boldMagenta boldCyan boldWhite"
    " faint bright",
    "maybe": "notEmpty varsNotEmpty variablesNotEmpty equals equalsIgnoreCase",
    "number": "L line r relative sn sequenceNumber pid processId T tid threadId tp threadPriority N"
    " nano",
    "free": "t thread tn threadName M method x NDC X mdc MDC K map MAP u uuid marker"
    " markerSimpleName kvp property contextName cn i repeat",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_WORD = re.compile(r"%(?P<pad>[-+]?[0-9]*(?:\.-?[0-9]+)?)(?P<name>[A-Za-z]*)")
_LONGEST_NAME = max(map(len, _KINDS))
_VARIABLE = re.compile(r"\$+\{")
_DEFAULT = "yyyy-MM-dd HH:mm:ss,SSS"
_CLOCK = "HH:mm:ss,SSS"
# Log4j writes a blank in ISO8601, Log4j 2 a T.
_BLANK_OR_T = "\x00"
_DATES = {
    "": _DEFAULT, "DEFAULT": _DEFAULT, "DEFAULT_PERIOD": "yyyy-MM-dd HH:mm:ss.SSS",
    "DEFAULT_MICROS": "yyyy-MM-dd HH:mm:ss,SSSSSS",
    "DEFAULT_NANOS": "yyyy-MM-dd HH:mm:ss,nnnnnnnnn",
    "ABSOLUTE": _CLOCK, "ABSOLUTE_PERIOD": "HH:mm:ss.SSS", "ABSOLUTE_MICROS": "HH:mm:ss,SSSSSS",
    "ABSOLUTE_NANOS": "HH:mm:ss,nnnnnnnnn", "DATE": "dd MMM yyyy HH:mm:ss,SSS",
    "DATE_PERIOD": "dd MMM yyyy HH:mm:ss.SSS", "COMPACT": "yyyyMMddHHmmssSSS",
    "ISO8601": f"yyyy-MM-dd{_BLANK_OR_T}HH:mm:ss,SSS",
    "ISO8601_PERIOD": "yyyy-MM-dd'T'HH:mm:ss.SSS", "ISO8601_BASIC": "yyyyMMdd'T'HHmmss,SSS",
    "ISO8601_BASIC_PERIOD": "yyyyMMdd'T'HHmmss.SSS",
    "ISO8601_PERIOD_MICROS": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ISO8601_OFFSET_DATE_TIME_HH": "yyyy-MM-dd'T'HH:mm:ss,SSSX",
    "ISO8601_OFFSET_DATE_TIME_HHMM": "yyyy-MM-dd'T'HH:mm:ss,SSSXX",
    "ISO8601_OFFSET_DATE_TIME_HHCMM": "yyyy-MM-dd'T'HH:mm:ss,SSSXXX",
    "US_MONTH_DAY_YEAR4_TIME": "dd/MM/yyyy HH:mm:ss.SSS",
    "US_MONTH_DAY_YEAR2_TIME": "dd/MM/yy HH:mm:ss.SSS",
}  # fmt: skip
_UNIX = {"UNIX": r"(?P<e>[0-9]{10})", "UNIX_MILLIS": r"(?P<e>[0-9]{10})(?P<f>[0-9]{3})"}
_LETTERS = re.compile(r"'(?P<text>[^']*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>.)", re.DOTALL)
# What a letter of a date's pattern captures, and its expression where that is not a number.
_OF_LETTER = {
    **dict.fromkeys("yuY", ("y", "")), **dict.fromkeys("ML", ("mo", "")), "d": ("d", ""),
    **dict.fromkeys("HhkK", ("h", "")), "m": ("mi", ""), "s": ("s", ""),
    **dict.fromkeys("Sn", ("f", "")), "a": ("ap", "[AaPp]"),
    **dict.fromkeys("zZXxOV", ("zone", ZONE)), **dict.fromkeys("Ee", ("", r"[\w.]+")),
}  # fmt: skip
_OFFSET = re.compile(
    r"(?:UTC|GMT|Z|Etc/UTC)(?:(?P<sign>[+-])(?P<h>[0-9]{1,2})(?::?(?P<m>[0-9]{2}))?)?"
)


class PatternError(ForensicsError):
    """A pattern that makes no layout; the text says why."""


@dataclass
class _Writer:
    """The expression of a pattern, part by part, in the order of the line."""

    # what captures (or nothing), and its expression
    parts: list[tuple[str, str]] = field(default_factory=list)
    time: TimeForm | None = None
    ended: bool = False
    words: int = 0

    def add(self, name: str, source: str) -> None:
        if self.ended:
            return
        if name == "free" and self.parts and self.parts[-1][0] == "free":
            return
        self.parts.append((name, source))

    def has(self, name: str) -> bool:
        return any(one == name for one, _ in self.parts)


def read_pattern(pattern: str, how: str) -> FoundLayout:
    """Make a layout of a conversion pattern; `how` says where the pattern comes from."""
    shown = pattern if len(pattern) <= 80 else pattern[:77] + "..."
    if len(pattern) > _MAX_CHARS:
        raise PatternError(f"log pattern {shown!r}: longer than {_MAX_CHARS:,} characters")
    try:
        time, source, tail = _read_whole(pattern)
    except PatternError as error:
        raise PatternError(f"log pattern {shown!r}: {error}") from None
    layout = found_layout(source, _name(pattern), time, tail)
    try:
        pc.extract_regex(pa.array([], pa.binary()), layout.pattern)
    except pa.ArrowInvalid:
        raise PatternError(f"log pattern {shown!r}: it is too large") from None
    return replace(layout, how=how)


def _read_whole(pattern: str) -> tuple[TimeForm, str, str | None]:
    """Return the time of a pattern, the expression of its records, and that of their end."""
    writer = _Writer()
    _read(_without_variables(pattern), writer, 0)
    if writer.time is None:
        raise PatternError("it has no time (%d), so its records cannot be placed")
    if not writer.has("message"):
        raise PatternError("it has no message (%m) on the line of its time")
    return writer.time, *_join(writer.parts)


def _name(pattern: str) -> str:
    """Return a pattern as it is shown: on one line, without the line's end."""
    return " ".join(pattern.replace("%n", "").split())[:200]


def _without_variables(text: str) -> str:
    """Put defaults for variables, `${NAME:-default}`; one without a default may be anything."""
    for _ in range(_MAX_WORDS):
        found = _VARIABLE.search(text)
        if not found:
            return text
        end = _closing(text, found.end() - 1)
        _, has_default, default = text[found.end() : end].partition(":-")
        value = default if has_default else "%property{}"
        text = text[: found.start()] + value + text[end + 1 :]
        if len(text) > _MAX_CHARS:
            break
    raise PatternError("it has too many variables")


def _closing(text: str, begin: int) -> int:
    """Return where the bracket closes that opens at a place."""
    opens, closes = text[begin], {"{": "}", "(": ")"}[text[begin]]
    depth, at = 0, begin
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == opens:
            depth += 1
        elif text[at] == closes:
            depth -= 1
            if not depth:
                return at
        at += 1
    raise PatternError(f"the {opens} of {text[begin : begin + 20]!r} is not closed")


def _read(text: str, writer: _Writer, depth: int) -> None:
    """Read a pattern from left to right, up to the end of its first line."""
    if depth > _MAX_DEPTH:
        raise PatternError("groups stand too deep in each other")
    at = 0
    while at < len(text) and not writer.ended:
        if text[at] == "\\" and at + 1 < len(text):
            at = _read_escape(text, at, writer)
        elif text.startswith("%%", at):
            writer.add("", "%")
            at += 2
        elif text[at] == "%":
            at = _read_word(text, at, writer, depth)
        elif text[at] == "\n":
            writer.ended = True
        else:
            writer.add("", re.escape(text[at]))
            at += 1


def _read_escape(text: str, at: int, writer: _Writer) -> int:
    char = text[at + 1]
    if char in "nr":
        writer.ended = writer.ended or char == "n"
    else:
        writer.add("", "\t" if char == "t" else re.escape(char))
    return at + 2


def _read_word(text: str, at: int, writer: _Writer, depth: int) -> int:
    """Read one conversion word with its options; return where it ends."""
    writer.words += 1
    if writer.words > _MAX_WORDS:
        raise PatternError(f"it has more than {_MAX_WORDS} conversion words")
    word = _WORD.match(text, at)
    assert word
    name = word["name"][:_LONGEST_NAME]
    while name and name not in _KINDS:
        name = name[:-1]
    end = word.start("name") + len(name)
    is_group = text.startswith("(", end)
    if not name and not is_group:
        raise PatternError(f"no logging library knows {text[at : at + 12]!r}")
    options: list[str] = []
    if is_group:
        close = _closing(text, end)
        options.append(text[end + 1 : close])
        end = close + 1
    while text.startswith("{", end):
        close = _closing(text, end)
        options.append(text[end + 1 : close])
        end = close + 1
    kind = _KINDS.get(name, "group")
    padded = any(char.isdigit() for char in word["pad"])
    if padded:
        writer.add("", _BLANKS)
    _write(kind, options, writer, depth)
    if padded:
        writer.add("", _BLANKS)
    return end


def _write(kind: str, options: list[str], writer: _Writer, depth: int) -> None:
    match kind:
        case "time":
            _write_time(options, writer)
        case "level" if not writer.has("level"):
            writer.add("level", rf"(?P<level>{LEVEL}|[A-Za-z]+)")
        case "logger" | "class" | "location" | "file":
            writer.add(kind, _LOGGERS[kind])
        case "message":
            writer.add("free" if writer.has("message") else "message", _FREE)
        case "end":
            writer.ended = True
        case "number":
            writer.add("", r"(?:-?[0-9]*|\?)")
        case "group" if options:
            _read(options[0], writer, depth + 1)
        case "maybe" if options:
            _write_maybe(options[0], writer, depth)
        case "nothing":
            pass
        case _:
            writer.add("free", _FREE)


def _write_maybe(pattern: str, writer: _Writer, depth: int) -> None:
    """Write what stands in some lines only."""
    inner = _Writer(words=writer.words)
    _read(pattern, inner, depth + 1)
    writer.words = inner.words
    if inner.time or inner.has("message") or inner.has("level") or inner.has("logger"):
        raise PatternError("time, level, logger or message may be missing in it")
    writer.add("", f"(?:{''.join(source for _, source in inner.parts)})?")


def _write_time(options: list[str], writer: _Writer) -> None:
    words = options[0].strip() if options else ""
    # Logback takes a zone behind a comma; Log4j 2 in an option of its own.
    form, _, zone = words.partition(", ")
    source = _UNIX.get(form.upper())
    if source is None:
        source = "".join(_letters(_DATES.get(form.upper(), form), set()))
    if writer.time is not None:
        writer.add("", re.sub(r"\(\?P<\w+>", "(?:", source))
        return
    place = (options[1] if len(options) > 1 else zone).strip()
    offset = _OFFSET.fullmatch(place)
    minutes = None
    if offset:
        minutes = int(offset["h"] or 0) * 60 + int(offset["m"] or 0)
        minutes = -minutes if offset["sign"] == "-" else minutes
    clock = "(?P<h>" in source or "(?P<e>" in source
    if not clock:
        raise PatternError(f"the time {form!r} has no hour")
    dated = "(?P<d>" in source or "(?P<e>" in source
    writer.time = TimeForm("pattern" if dated else "clock", source, offset=minutes)
    writer.add("time", source)


def _letters(form: str, taken: set[str]) -> Iterator[str]:
    """Yield the expression of each letter of a date's pattern, as Java reads them."""
    for token in _LETTERS.finditer(form):
        if token["letter"]:
            letter, width = token["letter"], len(token[0])
            name, source = _letter(letter, width)
            if name and name in taken:
                name = ""
            taken.add(name)
            yield f"(?P<{name}>{source})" if name else f"(?:{source})"
            if name == "ap":
                yield r"\.?[Mm]\.?"
        elif token["text"] is not None:
            yield re.escape(token["text"] or "'")
        elif token["other"] == _BLANK_OR_T:
            yield "[T ]"
        else:
            yield re.escape(token["other"])


def _letter(letter: str, width: int) -> tuple[str, str]:
    """Return what a letter captures, and its expression."""
    if letter not in _OF_LETTER:
        raise PatternError(f"no time is written by the letter {letter!r}")
    name, source = _OF_LETTER[letter]
    if name == "y":
        return name, "[0-9]{2}" if width == 2 else "[0-9]{4}"
    if name == "mo" and width > 2:
        return "mon", MONTH
    if name == "f":
        return name, f"[0-9]{{1,{min(max(width, 3), 9)}}}"
    return name, source or ("[0-9]{2}" if width > 1 else "[0-9]{1,2}")


def _join(parts: list[tuple[str, str]]) -> tuple[str, str | None]:
    """Return the expression of a record, and that of its end where the logger stands there."""
    names = [name for name, _ in parts]
    named = next((name for name in _LOGGERS if name in names), "")
    at = names.index("message")
    has_tail = bool(named) and named in names[at:]
    front = "".join(_sources(parts[:at], "" if has_tail else named, "(?P<logger>"))
    message = front + r"(?P<message>[^\n]*?)"
    if not has_tail:
        # A message of several lines has what follows it in its last line.
        behind = "".join(_sources(parts[at + 1 :]))
        return message + (f"(?:{behind})?" if behind else ""), None
    if "level" in names[at:]:
        # Only a record of one line tells its level: nothing but a whole line is one.
        return message + "".join(_sources(parts[at + 1 :], named, "(?P<logger>")), None
    tail = "".join(_sources(parts[at + 1 :], named, "("))
    while tail.startswith((r"\ ", _BLANKS)):
        tail = tail.removeprefix(r"\ ").removeprefix(_BLANKS)
    if re.fullmatch(re.escape(rf"\(({_CLASS})") + r"(?::.{1,20})?" + re.escape(r"\)"), tail):
        return message, ""
    return message, f"{_BLANKS}{tail}[ \t]*$"


def _sources(parts: list[tuple[str, str]], named: str = "", capture: str = "(?:") -> Iterator[str]:
    """Yield the expressions of parts; the first that names the logger captures it."""
    for place, (name, source) in enumerate(parts):
        following = parts[place + 1][1][-1:] if place + 1 < len(parts) else ""
        if name and name == named:
            yield _LOGGERS[name].replace("(", capture, 1)
            named = ""
        elif name in _LOGGERS:
            yield _LOGGERS[name].replace("(", "(?:", 1)
        elif source == _FREE and following in _CLOSING:
            yield rf"[^{re.escape(following)}\n]*" if following else _FREE
        else:
            yield source


# Keys under which configuration holds patterns: properties, XML, YAML and JSON.
_KEY = r"(?:[\w.]*\.)?(?:ConversionPattern|[Pp]attern)"
_IN_CONFIGURATION = re.compile(
    rf"(?m)^[ \t]*{_KEY}[ \t]*=[ \t]*(?P<properties>[^\n]{{1,{_MAX_CHARS}}})$"
    rf"|\b[Pp]attern[ \t]*=[ \t]*(?P<quote>[\"'])(?P<attribute>[^\n]{{1,{_MAX_CHARS}}}?)(?P=quote)"
    rf"|<[Pp]attern>\s*(?P<element>[^<]{{1,{_MAX_CHARS}}}?)\s*</[Pp]attern>"
    rf"|\bname=\"ConversionPattern\"\s+value=\"(?P<param>[^\"\n]{{1,{_MAX_CHARS}}})\""
    rf"|^[ \t-]*[\"']?[Pp]attern[\"']?[ \t]*:[ \t]*(?P<yaml>[^\n]{{1,{_MAX_CHARS}}}?),?$"
)
_DEFINED = re.compile(
    r"(?m)<[Pp]roperty\s+name=\"(?P<a>[\w.-]{1,80})\"\s*(?:value=\"(?P<value>[^\"\n]{1,2000})\"|>(?P<text>[^<]{1,2000})<)"
    r"|^[ \t]*property\.(?P<b>[\w.-]{1,80})[ \t]*=[ \t]*(?P<line>[^\n]{1,2000})$"
)
_READ = re.compile(r"%[-+.\d]*(?:d|date)\b")
_SAYS = re.compile(r"%[-+.\d]*(?:m|msg|message)")


def find_patterns(text: str) -> list[str]:
    """Find the patterns of records in configuration of log4j, Log4j 2 or Logback.

    >>> find_patterns("log4j.appender.a.layout.ConversionPattern=[%d] %p %m (%c)%n")
    ['[%d] %p %m (%c)%n']
    """
    defined: dict[str, str] = {}
    for one in _DEFINED.finditer(text):
        defined.setdefault(one["a"] or one["b"], one["value"] or one["text"] or one["line"])
    found: dict[str, None] = {}
    for one in _IN_CONFIGURATION.finditer(text):
        raw = next(value for name, value in one.groupdict().items() if value and name != "quote")
        in_xml = bool(one["attribute"] or one["element"] or one["param"])
        pattern = unescape(raw) if in_xml else raw.strip().strip("\"'")
        for _ in range(_MAX_DEPTH):
            pattern = _USE.sub(lambda use: defined.get(use[1], use[0]), pattern)[: 2 * _MAX_CHARS]
        if _READ.search(pattern) and _SAYS.search(pattern):
            found[pattern] = None
    return list(found)[:_MAX_PATTERNS]


def find_fitting(files: Iterable[tuple[str, Sequence[str]]], patterns: Iterable[str]) -> list[str]:
    """Return the patterns that read some lines of files in no known layout, given by name."""
    fitting: dict[str, None] = {}
    samples = [lines for _, lines in files if lines]
    for pattern in sorted(set(patterns)) if samples else ():
        try:
            layout = read_pattern(pattern, "configuration")
        except PatternError:
            # It is for other appenders, such as those of a console.
            continue
        for lines in samples:
            texts = pa.array([line.encode("utf-8", "replace") for line in lines], pa.binary())
            read = pc.sum(pc.match_substring_regex(texts, layout.pattern)).as_py()
            if read > max(1, _FITTING_SHARE * len(lines)):
                fitting[pattern] = None
    return list(fitting)[:_MAX_PATTERNS]


_USE = re.compile(r"\$\{([\w.-]{1,80})(?::-[^{}]*)?\}")
