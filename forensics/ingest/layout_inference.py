"""Finds the layout of log lines that no known layout reads, from a sample of them.

Times and levels are looked for first. What nearly all lines have in the same order is the head of a
record; what stands before it is a prefix, such as a collector writes. Behind it are thread, logger
and message; loggers are found by Kafka's own names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from forensics.ingest.inferred_layout import found_layout
from forensics.ingest.level_formats import LEVEL, find_levels
from forensics.ingest.line_suffixes import shared_end
from forensics.ingest.logger_names import LINE, PLACE, SUFFIX, find_loggers, holds_logger
from forensics.ingest.message_columns import MESSAGE, LinePattern, MessageStarts
from forensics.ingest.separator_patterns import gap_form, gap_parts
from forensics.ingest.time_formats import TimeForm, choose_order, find_times, form_of
from forensics.ingest.wrappers import Wrapper, found_end, found_prefix

# A head is looked for in so much of a line.
_REACH = 400
# So many of the lines that go as far must go one step further.
_SHARE = 0.75
_MAX_ELEMENTS = 6
# Two times that belong together, or a time and a level, have no more than this between them.
_NEAR, _CLOSE = 160, 8
# Behind a logger at the end of a head: the number of an event.
_NUMBERED = re.compile(r"^(?:\[[0-9]+\])?\s*$")
_CLOSERS = re.compile(r"[\])>}]*")
_OPENERS = re.compile(r"[\[(<{]*$")
_METHOD = r"[.:][A-Za-z_$<][\w$<>]*(?:\([\w$.]*:?[0-9]*\))?" + PLACE
_PLACE_AT, _METHOD_AT = re.compile(PLACE), re.compile(_METHOD)
_OF_FILE = re.compile(SUFFIX).match
_SEPARATOR = re.compile(r"[ \t]*[\])}>|:;,\"'-]*[ \t]*")
_BEFORE_TAIL = re.compile(r"\"?\s+\w+[=:]\s*\"?$|[\s(\[{<|:,\"'=-]+$")
_LOGGER = r"[\w.$-]+"
_DOTTED = r"[\w$-]+(?:\.[\w$-]+)+"
_CLASS = r"(?:[\w$-]+\.)*[A-Z][\w$-]*"
_MIN_LOGGERS, _MIN_SURE = 0.4, 0.5
# Fewer lines than that prove nothing.
_FEW_LINES = 3
# A name that stands where loggers do has so little before or behind it.
_EDGE = 2
_MAX_TAIL = 100
# In so many lines a message must be known to say where all messages begin.
_FEW_KNOWN, _NEARLY_ALL = 0.05, 0.9
_REGULAR_PARTS = 12
_MAX_GROUPS = 3


@dataclass(frozen=True)
class _Element:
    kind: str
    begin: int
    end: int


@dataclass(frozen=True)
class _Head:
    """The head that a sample has in common, and the lines that have it."""

    kinds: tuple[str, ...]
    lines: tuple[tuple[str, tuple[_Element, ...]], ...]
    own_time: int | None
    own_level: int | None

    def gaps(self, at: int) -> list[str]:
        """Return what stands before one element in each line."""
        return [
            line[(elements[at - 1].end if at else 0) : elements[at].begin]
            for line, elements in self.lines
        ]

    def after(self, at: int) -> list[str]:
        """Return what follows one element."""
        return [line[elements[at].end :] for line, elements in self.lines]

    def rests(self) -> list[str]:
        """Return what follows the last element."""
        last = len(self.kinds)
        return [line[elements[last - 1].end if last else 0 :] for line, elements in self.lines]

    def texts(self, at: int) -> list[str]:
        """Return one element of each line."""
        return [line[elements[at].begin : elements[at].end] for line, elements in self.lines]


Day = tuple[int, int, int]


def infer_layouts(
    lines: Sequence[str],
    loggers: Collection[str],
    day: Day | None = None,
    starts: MessageStarts | None = None,
) -> Iterator[tuple[Wrapper, ...]]:
    """Find what reads all lines, or those that begin alike, if lines of several kinds are mixed.

    `day` is that of the file, for times without a date.
    """
    yield infer_layout(lines, loggers, day)
    if starts is not None:
        yield infer_layout(lines, loggers, day, starts)
    groups: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        if elements := _elements(line):
            key = (elements[0].kind, *gap_form(line[: elements[0].begin]))
            groups.setdefault(key, []).append(line)
    if len(groups) > 1:
        for some in sorted(groups.values(), key=len, reverse=True)[:_MAX_GROUPS]:
            yield infer_layout(some, loggers, day)
            if starts is not None:
                yield infer_layout(some, loggers, day, starts)


def lacks_date(lines: Sequence[str]) -> bool:
    """Return True if lines are records of a log, but their times have no date."""
    head = _find_head([(line, _elements(line)) for line in lines])
    if head is None or head.own_time is None or head.own_level is None:
        return False
    return not form_of(head.kinds[head.own_time]).has_year


def infer_layout(
    lines: Sequence[str],
    loggers: Collection[str],
    day: Day | None = None,
    starts: MessageStarts | None = None,
    *,
    is_cut: bool = False,
) -> tuple[Wrapper, ...]:
    """Find what reads most of some lines: a prefix, a layout, or both; empty if nothing does.

    `loggers` are the last parts of the names of Kafka's loggers; `starts` what messages that rules
    know begin with; `is_cut`: what closed a quote around the lines was taken off.
    """
    lines = [line.rstrip("\r\n") for line in lines]
    head = _find_head([(line, _elements(line)) for line in lines])
    if head is None:
        return ()
    prefix, pattern = LinePattern(), LinePattern()
    begin = min(at for at in (head.own_time, head.own_level, len(head.kinds)) if at is not None)
    before = (gap_parts(head.gaps(at)) for at in range(min(begin + 1, len(head.kinds))))
    prefix.names_differ = any(part.names and part.varies for parts in before for part in parts)
    for at in range(begin):
        prefix.add_named(gap_parts(head.gaps(at)))
        prefix.add(_unnamed(head.kinds[at]), "TIME" if head.kinds[at] != "level" else "LEVEL")
    time = None
    if begin < len(head.kinds):
        time = _read_head(head, begin, prefix, pattern, loggers)
    else:
        pattern.rests = head.rests()
    sure = _read_rest(pattern, loggers, starts or MessageStarts())
    if time is None or not _is_evident(head, pattern, sure, day):
        return ()
    time = time.on(day)
    quoted = prefix.source.endswith(('"', "'")) and not is_cut
    if quoted and (end := shared_end(lines, prefix.source[-1])):
        shown, own = end
        cut = [re.sub(f"{own}$", "", line.rstrip()) for line in lines]
        return (found_end(shown, own), *infer_layout(cut, loggers, day, starts, is_cut=True))
    found: list[Wrapper] = []
    if prefix.source:
        found.append(found_prefix(prefix.source, prefix.shown))
    found.append(found_layout(pattern.source, pattern.shown, time, sure[1]))
    return tuple(found)


def _elements(line: str) -> tuple[_Element, ...]:
    reach = line[:_REACH]
    found = [_Element(time.form, time.begin, time.end) for time in find_times(reach)]
    taken = [(one.begin, one.end) for one in found]
    for begin, end in find_levels(reach):
        if all(end <= left or begin >= right for left, right in taken):
            found.append(_Element("level", begin, end))
    return tuple(sorted(found, key=lambda one: one.begin))[:_MAX_ELEMENTS]


def _find_head(rows: list[tuple[str, tuple[_Element, ...]]]) -> _Head | None:
    """Follow the elements that most lines have, one after the other."""
    kinds: tuple[str, ...] = ()
    some = rows
    while len(kinds) < _MAX_ELEMENTS:
        at = len(kinds)
        following = Counter(
            elements[at].kind
            for _, elements in some
            if len(elements) > at and (not at or elements[at].begin - elements[at - 1].end < _NEAR)
        )
        if not following:
            break
        kind, count = max(following.items(), key=lambda item: (item[1], item[0]))
        if _is_complete(kinds, kind, some):
            break
        if at and count < _SHARE * len(some) and not _is_regular(kind, at, some):
            break
        kinds = (*kinds, kind)
        some = [row for row in some if len(row[1]) > at and row[1][at].kind == kind]
    times = [at for at, kind in enumerate(kinds) if kind != "level"]
    levels = [at for at, kind in enumerate(kinds) if kind == "level"]
    own_level = levels[-1] if levels else None
    if own_level is not None and own_level + 1 in times:
        own_time: int | None = own_level + 1
    else:
        before = [at for at in times if own_level is None or at < own_level] or times
        dated = [at for at in before if form_of(kinds[at]).has_date and form_of(kinds[at]).has_year]
        own_time = (dated or before or [None])[-1]  # type: ignore[list-item]
    last = max((at for at in (own_time, own_level) if at is not None), default=-1)
    return _Head(kinds[: last + 1], tuple(some), own_time, own_level)


def _is_regular(kind: str, at: int, some: list[tuple[str, tuple[_Element, ...]]]) -> bool:
    """Return True if an element stands at the same place of the lines that have it.

    Lines that begin no record may be many, and have only what the collector put before them.
    """
    gaps = [
        line[row[at - 1].end : row[at].begin]
        for line, row in some
        if len(row) > at and row[at].kind == kind
    ]
    if len(gaps) < max(3, 0.1 * len(some)):
        return False
    parts = [part for part in gap_parts(gaps) if part.varies]
    return len(parts) <= _REGULAR_PARTS and all(part.kind != "loose" for part in parts)


def _is_complete(
    kinds: tuple[str, ...], kind: str, some: list[tuple[str, tuple[_Element, ...]]]
) -> bool:
    """Return True if what follows time and level is not another head, but part of a message."""
    has_time = any(one != "level" for one in kinds)
    if "level" not in kinds or (kind != "level" and not has_time):
        return False
    at = len(kinds)
    further = [row for row in some if len(row[1]) > at and row[1][at].kind == kind]
    if kind != "level" and _is_regular(kind, at, some):
        # Lines without a head of their own, such as those of a stack trace, may be the most.
        some = further
    if kind == "level":
        # A collector's level stands before a time, and the record's own directly after it.
        near = [
            row for _, row in some
            if len(row) > at and row[at].kind == kind and row[at].begin - row[at - 1].end <= _CLOSE
        ]  # fmt: skip
        return kinds[-1] == "level" or len(near) < _SHARE * len(some)
    if kinds[-1] == "level" and len(kinds) > 1:
        # A collector's time stands before a record that begins with its level.
        near = [
            row for _, row in some
            if len(row) > at and row[at].kind == kind and row[at].begin - row[at - 1].end <= _CLOSE
        ]  # fmt: skip
        if len(near) >= _SHARE * len(some):
            return False
    again = [
        row for _, row in some
        if len(row) > at + 1 and row[at].kind == kind and row[at + 1].kind == "level"
        and row[at + 1].begin - row[at].end < _NEAR // 4
    ]  # fmt: skip
    return len(again) < _SHARE * len(some)


def _unnamed(kind: str) -> str:
    return LEVEL if kind == "level" else f"(?:{form_of(kind).unnamed})"


def _read_head(
    head: _Head, begin: int, prefix: LinePattern, pattern: LinePattern, loggers: Collection[str]
) -> TimeForm | None:
    """Add the elements of a head and what stands between them; return the form of its time."""
    time = None
    for at in range(begin, len(head.kinds)):
        gaps = head.gaps(at)
        if at == begin:
            closed = min(len(_CLOSERS.match(rest)[0]) for rest in head.after(at))  # type: ignore[index]
            openers = [_OPENERS.search(gap)[0][-closed:] for gap in gaps]  # type: ignore[index]
            fronts = [gap[: len(gap) - len(some)] for gap, some in zip(gaps, openers, strict=True)]
            gaps = openers
            split = _split_logger(fronts, loggers, head.rests())
            if split:
                prefix.add_named(gap_parts(split[0]))
                _add_logger(pattern, split)
                pattern.add_parts(gap_parts(split[1]))
            else:
                prefix.add_named(gap_parts(fronts))
            pattern.add_parts(gap_parts(gaps))
        else:
            split = None if pattern.has_logger else _split_logger(gaps, loggers, head.rests())
            if split:
                pattern.add_parts(gap_parts(split[0], all_fit=True))
                _add_logger(pattern, split)
                pattern.add_parts(gap_parts(split[1]))
            else:
                pattern.add_parts(gap_parts(gaps, all_fit=True))
        if at == head.own_time:
            time = choose_order(head.kinds[at], head.texts(at))
            pattern.add(f"(?:{time.pattern})", f"%d{{{_shown_time(head.texts(at)[0])}}}")
        elif at == head.own_level:
            pattern.add(f"(?P<level>{LEVEL})", "%p")
        else:
            pattern.add(_unnamed(head.kinds[at]), "TIME" if head.kinds[at] != "level" else "LEVEL")
    pattern.rests = head.rests()
    return time


def _shown_time(text: str) -> str:
    """Show a time as its places: letters stay, digits become d."""
    return re.sub("[0-9]", "d", text)


def _split_logger(
    gaps: Sequence[str], loggers: Collection[str], rests: Sequence[str]
) -> tuple[list[str], list[str], str] | None:
    """Split gaps at the logger in them, if enough have one; the last value is its pattern.

    A name that is the same in all lines is none if what follows has names that differ.
    """
    found: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    some = 0
    for gap in gaps:
        tokens = find_loggers(gap, loggers)
        some += bool(tokens)
        for begin, end, name in tokens:
            found.setdefault(gap_form(gap[:begin]), []).append((gap[:begin], gap[end:], name))
    if some < max(1, _MIN_LOGGERS * len(gaps)):
        return None
    best = max(found.values(), key=lambda one: (len({name for *_, name in one}), len(one)))
    if len({name for *_, name in best}) == 1 and len(gaps) >= _FEW_LINES:
        texts = [(rest.strip(), find_loggers(rest.strip(), loggers)) for rest in rests]
        firsts = {names[0][2] for _, names in texts if names and names[0][0] <= _EDGE}
        lasts = {
            names[-1][2] for text, names in texts if names and len(text) - names[-1][1] <= _EDGE
        }
        if max(len(firsts), len(lasts)) > 1:
            return None
    # Threads and the like of other forms may stand before it.
    known = {name for *_, name in best}
    best = [
        next((one for one in reversed(split) if one[2] in known), split[-1])
        for gap in gaps
        if (split := [(gap[:a], gap[b:], name) for a, b, name in find_loggers(gap, loggers)])
    ]
    places = [_PLACE_AT.match(after)[0] for _, after, _ in best]  # type: ignore[index]
    afters = [after[len(place) :] for (_, after, _), place in zip(best, places, strict=True)]
    logger = _DOTTED if all("." in one for _, _, one in best) else _LOGGER
    # Where all loggers are files, the name must not take the suffix.
    source = rf"(?P<logger>{logger}?){SUFFIX}" if all(map(_OF_FILE, places)) else ""
    source = source or rf"(?P<logger>{logger})(?:{SUFFIX})?"
    return [before for before, _, _ in best], afters, source


def _add_logger(pattern: LinePattern, split: tuple[list[str], list[str], str]) -> None:
    pattern.add(f"{split[2]}{LINE}", "%c")
    pattern.has_logger = True


def _read_rest(
    pattern: LinePattern, loggers: Collection[str], starts: MessageStarts
) -> tuple[float, str | None]:
    """Add what follows the head: separators, thread, logger, message.

    Returns the share of lines with a known logger, and the pattern of the end of a record.
    """
    if (share := _read_known(pattern, loggers, starts)) is not None:
        return share
    pattern.strip_columns(partial(holds_logger, loggers=loggers), after_logger=pattern.has_logger)
    some = [rest for rest in pattern.rests if rest.strip()]
    if pattern.has_logger or not some:
        pattern.add_message()
        return (1.0 if pattern.has_logger else 0.0), None
    tail_share, tail, tail_shown = _find_tail(some, loggers)
    front_share, front = _find_front(some, loggers)
    if tail is not None and (tail_share >= _MIN_SURE or tail_share >= front_share):
        pattern.strip_columns(partial(holds_logger, loggers=loggers), after_logger=True)
        pattern.add(MESSAGE, f"%m{tail_shown}")
        return tail_share, tail
    if front is not None:
        pattern.rests = some
        pattern.take(front.source, front.shown)
        pattern.has_logger = True
        pattern.strip_columns(partial(holds_logger, loggers=loggers), after_logger=True)
        pattern.add_message()
        return front_share, None
    pattern.add_message()
    return 0.0, None


def _read_known(
    pattern: LinePattern, loggers: Collection[str], starts: MessageStarts
) -> tuple[float, str | None] | None:
    """Add what stands before messages that rules know, if lines of others have it, too."""
    rests = [rest for rest in pattern.rests if rest.strip()]
    begins = [starts.find(rest) for rest in rests]
    known = [
        (rest[:at], rest[at:]) for rest, at in zip(rests, begins, strict=True) if at is not None
    ]
    # A known text may also stand inside a message; before the whole ones stands the same.
    forms = Counter(gap_form(front) for front, _ in known)
    form, count = max(forms.items(), key=lambda one: (one[1], one[0]), default=((), 0))
    known = [one for one in known if gap_form(one[0]) == form]
    # One text again and again may be quoted by others; before messages that differ is their front.
    differ = len({message[:_NEAR] for _, message in known})
    if count < _FEW_KNOWN * len(rests) or differ < _FEW_LINES:
        return None
    fronts = [front for front, _ in known]
    found = LinePattern(rests=list(rests))
    split = None if pattern.has_logger else _split_logger(fronts, loggers, ())
    before, after = (gap_parts(one) for one in (split[:2] if split else (fronts, ())))
    if any(part.kind == "loose" for part in (*before, *after)):
        return None
    found.add_parts(before)
    if split:
        _add_logger(found, split)
    found.add_parts(after)
    fits = [match.end() for rest in rests if (match := re.match(found.source, rest))]
    if len(fits) < _NEARLY_ALL * len(rests):
        return None
    if not form:
        # Messages begin here, perhaps with brackets that only look like a column.
        found = LinePattern(r"[ \t]*", " ")
    pattern.take(found.source, found.shown)
    pattern.has_logger |= found.has_logger
    if pattern.has_logger:
        pattern.add_message()
        return 1.0, None
    share, tail, shown = _find_tail([rest for rest in pattern.rests if rest.strip()], loggers)
    if tail is None:
        pattern.add_message()
        return 0.0, None
    pattern.add(MESSAGE, f"%m{shown}")
    return share, tail


def _find_tail(rests: Sequence[str], loggers: Collection[str]) -> tuple[float, str | None, str]:
    """Find a logger at the end of records: its share, and what is put for it."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    of_files = True
    for rest in rests:
        tokens = find_loggers(rest, loggers, max(0, len(rest) - 2 * _MAX_TAIL))
        if tokens:
            begin, end, name = tokens[-1]
            ahead = _BEFORE_TAIL.search(rest[:begin])
            after = rest[_PLACE_AT.match(rest, end).end() :]  # type: ignore[union-attr]
            if ahead and len(after) <= _MAX_TAIL:
                shape = re.sub(r"[\w.| -]+", "x", after)
                found.setdefault((ahead[0].strip(), shape), []).append((name, after))
                of_files &= _OF_FILE(rest, end) is not None
    if not found:
        return 0.0, None, ""
    (before, _), ends = max(found.items(), key=lambda item: (len(item[1]), item[0]))
    share = len(ends) / len(rests)
    if share < _MIN_LOGGERS:
        return share, None, ""
    if before == "(" and {after for _, after in ends} == {")"}:
        return share, "", " (%c)"
    logger = _LOGGER if before else _DOTTED
    alike = [after for (sign, _), some in found.items() if sign == before for _, after in some]
    parts = gap_parts([after.rstrip() for after in alike], all_fit=True)
    blank = r"[ \t]*" if before else r"[ \t]+"
    behind = "".join(part.pattern for part in parts)
    # Where all loggers are files, the name must not take the suffix.
    logger, place = (f"{logger}?", f"{SUFFIX}{LINE}") if of_files else (logger, PLACE)
    tail = rf"{blank}{re.escape(before)}[ \t]*({logger}){place}{behind}[ \t]*$"
    return share, tail, f" {before}%c" + "".join(part.shown for part in parts)


def _find_front(rests: Sequence[str], loggers: Collection[str]) -> tuple[float, LinePattern | None]:
    """Find a logger before the message."""
    groups: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    methods = 0
    for rest in rests:
        tokens = find_loggers(rest, loggers, 0, _NEAR)
        if tokens:
            begin, end, name = tokens[0]
            ahead = rest[:begin]
            behind = _METHOD_AT.match(rest, end) or _PLACE_AT.match(rest, end)
            methods += rest.startswith((".", ":"), end) and _METHOD_AT.match(rest, end) is not None
            end = behind.end() if behind else end
            separator = _SEPARATOR.match(rest, end)[0]  # type: ignore[index]
            form = re.sub(r"\[[^\]]*\]|[\w.|/ -]+", "x", ahead)
            groups.setdefault((form, separator.strip()), []).append((ahead, name, rest[end:]))
    if not groups:
        return 0.0, None
    (_, sign), some = max(groups.items(), key=lambda item: (len(item[1]), item[0]))
    share = len(some) / len(rests)
    dotted = all("." in logger for _, logger, _ in some)
    if share < _MIN_LOGGERS or not (sign or dotted or share > _SHARE):
        return share, None
    pattern = LinePattern()
    # Threads of other forms may stand there, too.
    alike = [one for (_, other), found in groups.items() if other == sign for one in found]
    parts = gap_parts([before for before, _, _ in alike], all_fit=True)
    pattern.add_parts(parts)
    loose = any(part.kind == "loose" for part in parts)
    logger = _DOTTED if dotted and (loose or not sign) else _LOGGER
    if loose and not dotted and all(name.rpartition(".")[2][:1].isupper() for _, name, _ in some):
        # What stands before it may end in a word, too, such as the client of a thread.
        logger = _CLASS
    # Nothing follows where the message stands in the line below.
    bare = sum(not _NUMBERED.sub("", rest) for *_, rest in some) >= _NEARLY_ALL * len(some)
    number = r"(?:\[[0-9]+\])?" if bare else ""
    gap = number + r"[ \t]*" if bare or (sign and not sign[0].isalnum()) else r"[ \t]+"
    place = _METHOD if 2 * methods > len(rests) else PLACE
    logger += "" if bare else "?"
    pattern.add(rf"(?P<logger>{logger}){place}{gap}{re.escape(sign)}[ \t]*", f"%c {sign} ")
    return share, pattern


def _is_evident(
    head: _Head, pattern: LinePattern, sure: tuple[float, str | None], day: Day | None
) -> bool:
    """Return True if there is enough that speaks for a log of Kafka or its clients."""
    if head.own_time is None or not (day or form_of(head.kinds[head.own_time]).has_year):
        # Events without a date cannot be placed.
        return False
    if head.own_level is not None:
        return True
    if head.own_time is not None:
        return sure[0] >= _MIN_LOGGERS or pattern.has_logger
    return sure[0] >= _MIN_SURE
