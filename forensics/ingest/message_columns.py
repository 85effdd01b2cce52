"""What stands between the head of a record and its message: separators, labels, more columns.

A column is taken off where nearly all lines have it: a thread, a place in the code, a number.
Kafka's own messages begin with brackets that say what they name; those are left to the message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from forensics.ingest.embedded_client_lines import KAFKAJS_MODULES
from forensics.ingest.record_starts import Bytes, Flags, Signature
from forensics.ingest.separator_patterns import GapPart, common_prefix, gap_parts

# Nearly all lines have a column; messages alone agree in less.
_AGREE = 0.95
# Fewer messages, or fewer different ones, may begin alike by chance.
_FEW_MESSAGES, _FEW_KINDS = 8, 3
_MAX_ROUNDS = 12
_MIN_SURE, _OWN_SHARE, _MOSTLY = 0.5, 0.2, 0.7
_CLOSERS = re.compile(r"[\])}>|:;,\"'\s-]*")
_LABEL = re.compile(r"^[A-Za-z_@.]+[\"']?[=:][\"']?\s*")
_INSIDE = r"[^\[\]\n]*"
_SQUARE = re.compile(rf"\[({_INSIDE})\](?=[\s:\[]|$)")
# Brackets that Kafka's own messages begin with name what they speak of.
OWN_BRACKET = re.compile(rf"=|^thrd:|[a-z] (?:on |id )?.*[0-9]$|^(?:{'|'.join(KAFKAJS_MODULES)})$")
_PAIR_KEY = re.compile(r"([A-Za-z_][\w.@-]*)(=|: )")
_VALUES = (r'"(?:[^"\\\n]|\\[^\n])*"', r"'[^'\n]*'", r"[^,\n]*", r"[^\s,;]*")
_BETWEEN_PAIRS = r"(?:, ?|; ?|[ \t]+)"
_ASIDE = (
    r"\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)",
    r"\{[^{}\n]*\}",
    r"<<?[^<>\n]*>?>",
    r"\[\]",
)
_CLIENT_LINE = r"(?=[^\n]{0,60}\[thrd:)"
# A field ends at a sign that stood between fields before it; a word before one that is set apart.
_DELIMITERS = ("|", "\t", ";")
_AFTER_WORD = (r"[ \t]+-[ \t]", r"[ \t]+:{1,2}[ \t]", r"[ \t]+[>|][ \t]", r":[ \t]")
_WORD = r"[^\s\[\](){}\"'=<>]{1,80}"
_LONGEST_FIELD = 80
_EMPTY_BRACKETS = re.compile(r"(?: (?:\[\]|\{\}|\(\)))+$")
_CLOSING_SIGNS = re.compile(r"[ \t]*(?:[|;~\"']|(?<=[\s|#\]>])[|#\]>]|[|#\]>](?=[|#\]>]))+$")
_NO_MESSAGE = re.compile(r"[\s\W]*$")
_ENDINGS = {'"': '"', "'": "'", "<": ">", "{": "}"}
MESSAGE = r"(?P<message>[^\n]*?)"
# A known beginning of a message is so long, stands so near, and begins as a word or a bracket does.
_SHORTEST_START, _START_REACH = 8, 600
_SAYS = re.compile(r"[\s\[=]")
_WORD_BEGINS = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]|[\[(<]")
# Says if a text holds the name of a logger of Kafka.
HoldsLogger = Callable[[str], bool]


class MessageStarts:
    """What messages that rules know begin with: finds where one begins in a line.

    >>> MessageStarts(["[Broker id=", "Created log for "]).find("main - Created log for a-1")
    7
    """

    def __init__(self, starts: Iterable[str] = ()) -> None:
        """Take those that are long enough to be no accident."""
        self._starts: dict[str, list[str]] = {}
        for one in sorted(set(starts)):
            if len(one) >= _SHORTEST_START and _SAYS.search(one):
                self._starts.setdefault(one[:_SHORTEST_START], []).append(one)

    def find(self, text: str) -> int | None:
        """Return where the first known message begins."""
        if not self._starts:
            return None
        for match in _WORD_BEGINS.finditer(text, 0, _START_REACH):
            at = match.start()
            for one in self._starts.get(text[at : at + _SHORTEST_START], ()):
                if text.startswith(one, at):
                    return at
        return None


@dataclass
class LinePattern:
    """A pattern that grows from left to right, and how people would write it."""

    source: str = ""
    shown: str = ""
    has_logger: bool = False
    has_origin: bool = False
    # Whether some names before the lines differ from line to line.
    names_differ: bool = False
    # What follows it, in the lines of a sample.
    rests: list[str] = field(default_factory=list)

    def add(self, source: str, shown: str) -> None:
        """Add a part."""
        self.source += source
        self.shown += shown

    def add_parts(self, parts: Sequence[GapPart]) -> None:
        """Add the parts of a gap."""
        for part in parts:
            self.add(part.pattern, part.shown)

    def add_named(self, parts: Sequence[GapPart]) -> None:
        """Add parts of a prefix; the first names in it that differ may say who wrote the line."""
        found = [] if self.has_origin else list(_names_in(parts))
        differ = [one for one in found if any(part.varies for part in parts[slice(*one)])]
        if found and (differ or not self.names_differ):
            self.has_origin = True
            first, last = (differ or found)[0]
            self.add_parts(parts[:first])
            self.source += "(?P<origin>"
            self.add_parts(parts[first:last])
            self.source += ")"
            parts = parts[last:]
        self.add_parts(parts)

    def take(self, source: str, shown: str) -> None:
        """Add a part that the rests begin with; forget those that do not."""
        found = [(rest, re.match(source, rest)) for rest in self.rests]
        self.add(source, shown)
        self.rests = [rest[match.end() :] for rest, match in found if match]

    def strip_columns(self, holds_logger: HoldsLogger, *, after_logger: bool) -> None:
        """Take off whatever stands before the messages, but not a logger."""
        if self._fit(_CLIENT_LINE):
            # A line of librdkafka brings columns of its own.
            self._take_separators()
            return
        for _ in range(_MAX_ROUNDS):
            size = len(self.source)
            if not (
                self._take_separators() or self._take_pair(holds_logger) or self._take_label()
                or self._take_thread(holds_logger) or self._take_field(holds_logger)
                or (after_logger and self._take_column())
            ) or len(self.source) == size:  # fmt: skip
                return

    def add_message(self) -> None:
        """Add the message; what was opened before it is closed behind it."""
        rests = [rest.rstrip() for rest in self.rests if rest.strip()]
        for opening, closing in _ENDINGS.items():
            opened = [one for one in rests if one[0] == opening]
            # The first lines of longer messages end in another way.
            whole = [one for one in opened if one[-1] == closing]
            most = len(opened) >= _AGREE * len(rests) and len(whole) >= _MOSTLY * len(rests)
            if len(rests) > 1 and most:
                self.take(opening, opening)
                break
        closing = _ENDINGS.get(self.shown.rstrip()[-1:], "")
        if not closing and (ends := _shared_ending(rests)):
            self.add(f"{MESSAGE}(?:{re.escape(ends)})?[ \\t]*", f"%m{ends}")
        elif closing and sum(rest.endswith(closing) for rest in rests) >= _MIN_SURE * len(rests):
            self.add(f"{MESSAGE}{re.escape(closing)}?[ \\t]*", f"%m{closing}")
        else:
            self.add(MESSAGE, "%m")

    def _fit(self, source: str) -> bool:
        """Return True if nearly all rests begin so, and something follows."""
        rests = [rest for rest in self.rests if rest.strip()]
        found = [(rest, re.match(source, rest)) for rest in rests]
        some = [rest[match.end() :] for rest, match in found if match]
        left = sum(_NO_MESSAGE.match(rest) is None for rest in some)
        return len(rests) > 1 and left >= _AGREE * len(rests)

    def _take_separators(self) -> bool:
        """Take off the signs between the head and what follows."""
        runs = [_CLOSERS.match(rest)[0] for rest in self.rests]  # type: ignore[index]
        forms = Counter(re.sub(r"\s+", "", run) for run in runs)
        if len(forms) != 1:
            runs = [common_prefix([run.strip() for run in runs])] * len(runs)
            signs = runs[0] if runs else ""
            before = self.rests
            cut = [re.match(rf"\s*{re.escape(signs)}\s*", rest) for rest in self.rests]
            self.rests = [
                rest[match.end() :] if match else rest
                for rest, match in zip(self.rests, cut, strict=True)
            ]
            if self.rests == before:
                return False
            self.add(rf"[ \t]*{re.escape(signs)}[ \t]*", f"{signs} ")
            return True
        if not any(runs):
            return False
        for part in gap_parts(runs):
            # Padding differs from line to line, in lines that no sample holds too.
            blank = part.kind == "blank"
            self.add(r"[ \t]*" if blank else part.pattern, " " if blank else part.shown)
        self.rests = [rest[len(run) :] for rest, run in zip(self.rests, runs, strict=True)]
        return True

    def _take_label(self) -> bool:
        shared = common_prefix(self.rests)
        label = _LABEL.match(shared)
        if not label or _count_kinds(self.rests) < _FEW_KINDS:
            return False
        self.add(re.escape(label[0]), label[0])
        self.rests = [rest[label.end() :] for rest in self.rests]
        return True

    def _take_pair(self, holds_logger: HoldsLogger) -> bool:
        """Take off a key and its value, if all lines have another key behind them."""
        keys = Counter(match[0] for rest in self.rests if (match := _PAIR_KEY.match(rest)))
        if not keys:
            return False
        key = max(keys.items(), key=lambda one: (one[1], one[0]))[0]
        sign = "=" if key.endswith("=") else ": "
        for value in _VALUES:
            front = rf"{re.escape(key)}{value}{_BETWEEN_PAIRS}"
            following = rf"(?=[A-Za-z_][\w.@-]*{re.escape(sign)})"
            if self._fit(front + following) and len(set(self.rests)) >= _FEW_KINDS:
                # The next key is the same everywhere, unless this is a message's own.
                if self._hold_names(rf"{re.escape(key)}({value}){_BETWEEN_PAIRS}", holds_logger):
                    return False
                after = [re.sub(front, "", rest, count=1) for rest in self.rests]
                names = {match[0] for rest in after if (match := _PAIR_KEY.match(rest))}
                if len(names) == 1:
                    self.take(front, f"{key}... ")
                    return True
        return False

    def _hold_names(self, column: str, holds_logger: HoldsLogger) -> bool:
        """Return True if the first group of a column often holds the name of a logger."""
        if self.has_logger:
            return False
        found = [match[1] for rest in self.rests if (match := re.match(column, rest))]
        return sum(map(holds_logger, found)) > _OWN_SHARE * len(found)

    def _take_thread(self, holds_logger: HoldsLogger) -> bool:
        """Take off a thread in brackets, unless messages begin with such brackets themselves."""
        named = self._hold_names(rf"\[({_INSIDE})\]", holds_logger)
        if not named and self._fit(rf"\[{_INSIDE}\][ \t]+\[{_INSIDE}\]"):
            # Only the last of several can be the message's.
            self.take(rf"\[{_INSIDE}\][ \t]+", "[...] ")
            return True
        found = [_SQUARE.match(rest) for rest in self.rests]
        inside = [match[1] for match in found if match]
        if len(inside) < 2 or len(inside) < _AGREE * len(found):
            return False
        own = sum(OWN_BRACKET.search(one) is not None for one in inside)
        if own > _OWN_SHARE * len(inside) or named:
            return False
        # Kafka's own brackets hold an equals sign; lines of another layout may have those.
        sign = "" if own else "="
        self.take(rf"\[[^\[\]{sign}\n]*\](?:[ \t]+|:[ \t]*)?", "[%t] ")
        return True

    def _take_field(self, holds_logger: HoldsLogger) -> bool:
        """Take off a field that ends with a sign that stood between fields before it."""
        for sign in _DELIMITERS:
            inside = rf"[^{re.escape(sign)}\n]{{0,{_LONGEST_FIELD}}}"
            end = re.escape(sign) + r"[ \t]*"
            # Kafka's threads may have a bar between blanks.
            known = sign in self.shown and (self.has_logger or f" {sign}" not in self.shown)
            if known and self._fit(inside + end):
                if self._hold_names(f"({inside}){end}", holds_logger):
                    return False
                self.take(inside + end, f"...{sign}")
                return True
        return False

    def _take_column(self) -> bool:
        """Take off something in brackets, or a word before a sign."""
        for aside in _ASIDE:
            if self._fit(rf"{aside}[ \t]+"):
                self.take(rf"{aside}[ \t]+", f"{aside[1]}...{aside[-1]} ")
                return True
        if len(self.rests) < _FEW_MESSAGES:
            return False
        for sign in _AFTER_WORD:
            column = rf"{_WORD}{sign}"
            if self._fit(column):
                after = [re.sub(column, "", rest, count=1) for rest in self.rests]
                if _count_kinds(after) >= _FEW_KINDS:
                    self.take(column + r"[ \t]*", "... ")
                    return True
        return False


def _names_in(parts: Sequence[GapPart]) -> Iterator[tuple[int, int]]:
    """Yield where names stand, one behind the other; a number that counts stands between two."""
    begin: int | None = None
    end = 0
    for at, part in enumerate(parts):
        if part.names:
            begin, end = at if begin is None else begin, at + 1
        elif begin is not None and part.varies and part.kind in ("digits", "loose"):
            yield begin, end
            begin = None
    if begin is not None:
        yield begin, end


def _shared_ending(rests: Sequence[str]) -> str:
    """Return the signs that nearly all messages end with: empty brackets, or what closes a record.

    The first lines of longer messages end in another way.
    """
    for endings, share in ((_EMPTY_BRACKETS, _AGREE), (_CLOSING_SIGNS, _MOSTLY)):
        ends = Counter(match[0] for rest in rests if (match := endings.search(rest)))
        end, count = max(ends.items(), key=lambda one: (one[1], one[0]), default=("", 0))
        if len(end.split()) > 1:
            # No message ends with several empty brackets.
            share = _MIN_SURE  # noqa: PLW2901
        if len(rests) > 1 and count >= share * len(rests):
            return end
    return ""


def _count_kinds(messages: Sequence[str]) -> int:
    """Count messages that differ in more than numbers."""
    return len({re.sub("[0-9]+", "0", message)[:_LONGEST_FIELD] for message in messages})


def leads_with_column(messages: Sequence[str], holds_logger: HoldsLogger) -> bool:
    """Return True if messages seem to have something before them that is not theirs."""
    some = [message for message in messages if message.strip()]
    if len(some) < _FEW_MESSAGES or _count_kinds(some) < _FEW_KINDS:
        return False
    quoted = sum(len(one) > 1 and one[0] == '"' == one.rstrip()[-1] for one in some)
    if quoted >= _AGREE * len(some):
        return True
    pattern = LinePattern(rests=list(some))
    pattern.strip_columns(holds_logger, after_logger=True)
    return bool(pattern.source)


class LineJudge(Protocol):
    """What is known of layouts: how records begin, and whether a layout reads a line as it is."""

    @property
    def signatures(self) -> Sequence[Signature]:
        """How records of the known layouts begin."""

    @property
    def loggers(self) -> frozenset[str]:
        """The last parts of the names of Kafka's loggers."""

    @property
    def starts(self) -> MessageStarts:
        """What messages that rules know begin with."""

    def count_known(self, lines: pa.Array, kinds: Bytes) -> int:
        """Count the messages and loggers in some records that rules know."""

    def reads(self, lines: pa.Array, kinds: Bytes, followed: Flags) -> Flags:
        """Say which lines a layout reads; `followed` marks those with lines below them."""

    def proves(self, lines: pa.Array, kinds: Bytes, followed: Flags) -> Flags:
        """Say which lines end as a layout does, each by itself."""
