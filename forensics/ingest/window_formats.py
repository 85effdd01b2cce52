"""How the lines of each window of a file are written: wrappers and layouts, found window by window.

A file is looked at in windows of its bytes. What is in a window, and the head of the file, decide
how its lines are read, whatever the splits: a wrapper or a layout may begin, change or end
anywhere. A window whose lines are all read by known layouts costs a look at some of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.inferred_layout import FoundLayout, layouts_on_day
from forensics.ingest.layout_inference import Day, infer_layouts, lacks_date
from forensics.ingest.line_suffixes import find_ending
from forensics.ingest.message_columns import LineJudge
from forensics.ingest.record_starts import (
    HEAD_BYTES,
    MAX_RECORD,
    Flags,
    Lines,
    Offsets,
    Signature,
    concat_lines,
    find_lines,
    is_crowded,
    match_starts,
    spread_rows,
)
from forensics.ingest.text_buffer import (
    LONGEST_LINE,
    TextBuffer,
    choose_texts,
    cut_lines,
    to_buffer,
)
from forensics.ingest.time_formats import TIME_HINT, UNDATED
from forensics.ingest.wrapper_base import Wrapper
from forensics.ingest.wrapper_detection import (
    WrapperStack,
    detect_wrappers,
    find_blanks_and_breaks,
    find_wrapped,
    shipped_wrappers,
    texts_to_lines,
    to_texts,
)
from forensics.ingest.wrappers import CodeWrapper, FoundEnd, FoundPrefix

# As long as a block, so that a stream is read window by window.
WINDOW = 4 << 20
_KNOWN_SAMPLE, _OTHER_SAMPLE, _INDENTED_SAMPLE = 48, 96, 32
# So few lines of a window that look like records are lines of a message.
_FEW_LINES, _FEW_SHARE = 3, 0.05
_MAX_STACKS, _MOST = 4, 0.5
# So many lines make another layout beside those that are known.
_MIN_FOUND = 5
# Where a time or a level stands near its beginning, a line may be a record.
_LOOKS = (
    rf"{TIME_HINT}|\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b"
    r"|[\[ |](?:trace|debug|info|warn|warning|error|fatal|[TDIWEF])[\] |]|\([\w.$]+\)$|^\{"
)
LEVEL_HINT = r"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b"
_HEADS = rf"{TIME_HINT}|{LEVEL_HINT}"
_LOOKS_IN = 400
# What is a record by its looks: a time and a level near its beginning.
_RECORD = (
    r"^.{0,60}?[0-9]:[0-9]{2}:[0-9]{2}.{0,60}?(?i:\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b)"
    r"|^.{0,30}?(?i:\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b).{0,30}?[0-9]:[0-9]{2}:[0-9]{2}"
)
_RECORD_HEAD = re.compile(_RECORD)
_UNREAD_SHARE, _MAX_SHAPES, _SHAPE_CHARS = 0.1, 3, 100
_DIGITS = re.compile("[0-9]+")
# A head that was written anew, with little between its level and its logger; nearly all such heads
# have their messages in the lines below, which differ more than what the heads say.
_WRITTEN_HEAD = r"^\[[0-9][^\]]*[0-9]Z?\] \S+ "
_HEAD_ABOVE = _WRITTEN_HEAD + r"([^\n]{0,80}) \([\w.$-]+\)\r*\n?$"
_BELOW_SAMPLE, _BELOW_SHARE = 1000, 0.9
_SPACE, _ESCAPE, _FEW = 32, 27, 8


@dataclass(frozen=True)
class WindowStacks:
    """How one window is read: its stacks, in order.

    `plain` are the signatures of records that are read as they are, and `mixed` those of which
    most are; `loose`: there is no record.
    """

    stacks: tuple[WrapperStack, ...] = ()
    plain: tuple[int, ...] = ()
    mixed: tuple[int, ...] = ()
    loose: bool = False
    # Lines of a sample that look like records and are read by no layout: their most frequent
    # shapes, and how many there are of each.
    unread: tuple[tuple[str, int], ...] = ()


class WindowReader:
    """Reads the lines of one file, each window by its own stacks."""

    def __init__(
        self,
        judge: LineJudge,
        head: bytes,
        wrappers: Sequence[Wrapper] | None = None,
        read_window: Callable[[int], tuple[bytes, bool]] | None = None,
        day: Day | None = None,
    ) -> None:
        """Judge the head.

        `read_window` reads a window of a file that is read in parts, and says if it is the last;
        `day` is that of the file, if its name tells it.
        """
        # The names of the stacks, by the numbers that lines carry; 0 is for lines as they are.
        self.names: list[str] = [""]
        # How each was found.
        self.hows: list[str] = ["known"]
        self._judge = judge
        self._day = day
        # Whether some lines are records whose times have no date.
        self._lacks_date = False
        wrappers = shipped_wrappers() if wrappers is None else wrappers
        self._wrappers = layouts_on_day(wrappers, day or UNDATED)
        given = (one for one in self._wrappers if isinstance(one, FoundLayout))
        self._patterns = [WrapperStack((one,)) for one in given]
        self._read_window = read_window
        self._found: dict[int, WindowStacks] = {}
        self._guesses: tuple[WrapperStack, ...] = ()
        # Lines of the window in question that do not look like records.
        self._below = pa.array([], pa.binary())
        lines = self._lines(head[:HEAD_BYTES], final=b"\n" not in head[:HEAD_BYTES])
        first = self._decide(lines)
        if self._lacks_date and not self._has_records(lines, first):
            # Their day is found when all files are known.
            self._day = UNDATED
            first = self._decide(lines)
        self._guesses = first.stacks
        self.headless = not self._has_records(lines, first)
        # A small file is its head: what was decided of the one holds for the other.
        self._head: tuple[Lines, WindowStacks] | None = (lines, replace(first, loose=self.headless))

    @property
    def first_stack(self) -> WrapperStack | None:
        """The stack that reads the head, if any."""
        return self._guesses[0] if self._guesses else None

    def finds_records(self, text: bytes) -> bool:
        """Return True if some window's worth of text has records."""
        lines = self._lines(text, final=True)
        return self._has_records(lines, self._decide(lines))

    @property
    def unread(self) -> dict[int, tuple[tuple[str, int], ...]]:
        """The shapes of what looks like records and is read by no layout, by window."""
        return {number: one.unread for number, one in self._found.items() if one.unread}

    def learn(self, lines: Lines, offset: int, length: int, *, final: bool) -> None:
        """Decide about the windows that end in a text, which stands at this offset of the file."""
        # Of a file that is read in parts only about those that are wholly in the text.
        final, before = (False, WINDOW - 1) if self._read_window else (final, 0)
        for number in range((offset + before) // WINDOW, -(-(offset + length) // WINDOW)):
            if number in self._found or ((number + 1) * WINDOW > offset + length and not final):
                continue
            places = lines.block_starts + offset
            inside = (places > number * WINDOW) if number else places >= 0
            stops = np.append(lines.block_starts, lines.size)[1:] + offset
            inside &= (stops <= (number + 1) * WINDOW) & (places < (number + 1) * WINDOW)
            rows = np.flatnonzero(inside)
            some = lines.slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) else lines.slice(0, 0)
            self._found[number] = self._with_loose(some, number)

    def read_text(self, text: bytes, offset: int, *, final: bool) -> Lines:
        """Read the whole lines of a text that stands at this offset of the file."""
        lines = self._lines(text, final=final)
        self.learn(lines, offset, len(text), final=final)
        return self.read(lines, offset, torn_before=False)

    def read(self, lines: Lines, offset: int, *, torn_before: bool) -> Lines:
        """Read raw lines by the stacks of their windows; their `kinds` must be set."""
        if not len(lines):
            return lines
        numbers = (lines.block_starts + offset) // WINDOW
        cuts = np.append(np.flatnonzero(np.diff(numbers, prepend=-1)), len(lines))
        parts = []
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            window = self._window(int(numbers[begin]))
            part = lines if end - begin == len(lines) else lines.slice(begin, end)
            part = self._apply(part, window, torn_before=torn_before)
            torn_before = part.continues is not None and bool(part.continues[-1])
            parts.append(part)
        if all(part.data is lines.data and part.loose is None for part in parts):
            return lines
        return concat_lines(parts) if len(parts) > 1 else parts[0]

    def is_split(self, line: bytes, offset: int) -> bool:
        """Return True if the line before a split goes on in the next one."""
        if not line:
            return False
        found = self._lines(line, final=True)
        read = self.read(found, offset - len(line), torn_before=False)
        return read.continues is not None and bool(read.continues[-1])

    def _lines(self, text: bytes, *, final: bool) -> Lines:
        lines = find_lines(text, final=final)
        return lines.with_kinds(
            match_starts(lines.data, lines.starts, lines.own_ends, self._judge.signatures)
        )

    def _window(self, number: int) -> WindowStacks:
        if number not in self._found and self._read_window:
            text, last = self._read_window(number)
            if is_crowded(text):
                # No log has so many lines; what is known of each would take too much memory.
                self._found[number] = WindowStacks(self._guesses, loose=self.headless)
                return self._found[number]
            lines = self._lines(text, final=last)
            some = lines.slice(1, len(lines)) if number and len(lines) else lines
            self._found[number] = self._with_loose(some, number)
        return self._found.get(number) or WindowStacks(self._guesses)

    def _with_loose(self, lines: Lines, number: int) -> WindowStacks:
        if self._head and not number:
            (head, found), self._head = self._head, None
            if lines.size == head.size and np.array_equal(lines.data, head.data):
                return found
        window = self._decide(lines)
        loose = self.headless and not self._has_records(lines, window)
        return replace(window, loose=loose)

    def _has_records(self, lines: Lines, window: WindowStacks) -> bool:
        return bool(self._apply(lines, window, torn_before=False).kinds.any())

    def _apply(self, lines: Lines, window: WindowStacks, *, torn_before: bool) -> Lines:
        if len(lines) and window.stacks:
            texts, forms = self._open(lines, window)
            lines = texts_to_lines(lines, texts, torn_before=torn_before)
            lines = replace(lines, forms=forms)
            lines = lines.with_kinds(
                match_starts(lines.data, lines.starts, lines.own_ends, self._judge.signatures)
            )
        if window.loose:
            return replace(lines, loose=np.ones(len(lines), np.bool_))
        return lines

    def _open(self, lines: Lines, window: WindowStacks) -> tuple[TextBuffer, Offsets]:
        """Open lines, each by the first stack that makes a record of it."""
        texts = to_texts(lines)
        opened = [stack.open(texts) for stack in window.stacks]
        numbers = np.array([0, *(self._number(stack) for stack in window.stacks)])
        if len(opened) == 1 and not window.plain and not window.mixed:
            return opened[0], np.where(opened[0].carried, numbers[1], 0)
        plain = np.isin(lines.kinds, window.plain)
        rows = np.flatnonzero(np.isin(lines.kinds, window.mixed))
        plain[rows] = self._proved(lines, rows)
        known = [stack for stack in window.stacks if not stack.is_found]
        # As they are, records of layouts that were proved come before those of found layouts.
        order = [*range(1, len(known) + 1), 0, *range(len(known) + 1, len(opened) + 1), 0]
        chosen = np.full(len(texts), -1)
        carriers = np.zeros(len(texts), np.int64)
        for place, at in enumerate(order):
            if at == 0:
                proved = place < len(order) - 1
                records = plain if proved else (lines.kinds > 0) & (carriers == 0)
            else:
                one = opened[at - 1]
                kinds = match_starts(one.data, one.starts, one.stops, self._judge.signatures)
                records = one.carried & ((kinds > 0) | one.continues)
                carriers[one.carried & (carriers == 0)] = at
            chosen[records & (chosen < 0)] = at
        chosen = np.where(chosen < 0, carriers, chosen)
        return choose_texts(texts, opened, chosen), numbers[chosen]

    def _proved(self, lines: Lines, rows: Offsets) -> Flags:
        """Mark lines that a known layout reads, whatever stands around them."""
        followed = np.append(lines.kinds[1:] == 0, True)[rows]
        return self._judge.proves(cut_lines(lines, rows), lines.kinds[rows], followed)

    def _number(self, stack: WrapperStack) -> int:
        if stack.name not in self.names:
            self.names.append(stack.name)
            self.hows.append(stack.how)
        return self.names.index(stack.name)

    def _decide(self, lines: Lines) -> WindowStacks:
        """Decide how the lines of a window are read."""
        if not len(lines):
            return WindowStacks()
        known = spread_rows(np.flatnonzero(lines.kinds), _KNOWN_SAMPLE)
        given, known = self._take_pasted(lines, known)
        followed = np.append(lines.kinds[1:] == 0, True)[known]
        good = self._judge.reads(cut_lines(lines, known), lines.kinds[known], followed)
        unread = known[~good]
        written = (lines.kinds == 0) & (lines.ends > lines.starts)
        indented = lines.data[lines.starts] <= _SPACE
        others = np.append(
            spread_rows(np.flatnonzero(written & ~indented), _OTHER_SAMPLE),
            spread_rows(np.flatnonzero(written & indented), _INDENTED_SAMPLE),
        )
        looks = pc.match_substring_regex(cut_lines(lines, others, _LOOKS_IN), _LOOKS)
        looks_like = looks.to_numpy(zero_copy_only=False)
        maybe = others[looks_like]
        rows = np.sort(np.append(unread, maybe))
        few = len(known) and len(rows) < max(_FEW_LINES, _FEW_SHARE * len(others))
        coded = self._find_coded(lines)
        if few and len(unread) < _FEW_LINES and good.any() and not given:
            return WindowStacks(coded)
        sample = cut_lines(lines, rows[(lines.ends - lines.starts)[rows] <= LONGEST_LINE])
        self._below = cut_lines(lines, others[~looks_like])
        found, left = self._find_stacks(sample, alone=not good.any())
        found = [self._with_messages_below(stack, lines) for stack in found]
        found = [self._with_true_names(stack, lines) for stack in found]
        kinds = lines.kinds[known]
        shares = {kind: good[kinds == kind].mean() for kind in np.unique(kinds).tolist()}
        plain = tuple(kind for kind, share in shares.items() if share == 1)
        same = self._proved(lines, known) == good
        mixed = tuple(
            kind
            for kind, share in shares.items()
            if _MOST <= share < 1 and not given and same[kinds == kind].all()
        )
        # Shipped wrappers come first: they are stricter.
        stacks = sorted(found, key=lambda stack: stack.is_found)
        stacks = [*given, *(stack for stack in (*stacks, *coded) if stack not in given)]
        shapes = _unread_shapes(left, len(sample))
        return WindowStacks(tuple(stacks), plain, mixed, unread=shapes)

    def _with_messages_below(self, stack: WrapperStack, lines: Lines) -> WrapperStack:
        """Let a stack read heads of records whose messages stand in the lines below them."""
        *others, layout = stack.wrappers
        if not isinstance(layout, FoundLayout) or layout.is_given or not layout.names_logger:
            return stack
        opened = stack.open(to_texts(lines.slice(0, min(len(lines), _BELOW_SAMPLE))))
        texts = opened.to_arrow()
        is_head = pc.match_substring_regex(texts, _HEAD_ABOVE).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_head & opened.carried)
        rows = rows[rows + 1 < len(texts)]
        if len(rows) < _FEW:
            return stack
        below = texts.take(pa.array(rows + 1))
        is_message = pc.and_(
            pc.match_substring_regex(below, r"^ {0,8}[^\s]"),
            pc.invert(pc.match_substring_regex(below, _WRITTEN_HEAD)),
        )
        if pc.sum(is_message).as_py() < _BELOW_SHARE * len(rows):
            return stack
        above = [
            _DIGITS.sub("0", one.decode("utf-8", "replace")) for one in texts.take(rows).to_pylist()
        ]
        heads = {match[1] for one in above if (match := re.match(_HEAD_ABOVE, one))}
        said = {_DIGITS.sub("0", one.decode("utf-8", "replace")) for one in below.to_pylist()}
        if len(heads) >= len(said):
            return stack
        indent = min(len(one) - len(one.lstrip(b" ")) for one in below.to_pylist())
        return replace(stack, wrappers=(*others, layout.above(min(heads), indent)))

    def _with_true_names(self, stack: WrapperStack, lines: Lines) -> WrapperStack:
        """Let names in a found prefix be names only if lines below a record have those of it.

        Counters, threads and places in a code change from line to line, whoever writes.
        """
        if not any(isinstance(one, FoundPrefix) and one.names_writer for one in stack.wrappers):
            return stack
        opened = stack.open(to_texts(lines.slice(0, min(len(lines), _BELOW_SAMPLE))))
        if opened.origins is None:
            return stack
        kinds = match_starts(opened.data, opened.starts, opened.stops, self._judge.signatures)
        below = np.flatnonzero((kinds[1:] == 0) & opened.carried[1:] & opened.carried[:-1]) + 1
        if len(below) < _FEW:
            return stack
        names = opened.origins.take(pa.array(below))
        above = opened.origins.take(pa.array(below - 1))
        same = pc.sum(pc.equal(names, above), min_count=0).as_py()
        if 2 * same >= len(below):
            return stack
        wrappers = (
            one.without_writer() if isinstance(one, FoundPrefix) else one for one in stack.wrappers
        )
        return replace(stack, wrappers=tuple(wrappers))

    def _find_coded(self, lines: Lines) -> tuple[WrapperStack, ...]:
        """Find what takes off codes and zeros that stand before a few records."""
        firsts = lines.data[lines.starts]
        rows = np.flatnonzero((lines.kinds == 0) & ((firsts == _ESCAPE) | (firsts == 0)))[:_FEW]
        some = cut_lines(lines, rows[(lines.ends > lines.starts)[rows]], MAX_RECORD)
        for wrapper in self._wrappers if len(some) else ():
            if isinstance(wrapper, CodeWrapper):
                stack = WrapperStack((wrapper,))
                if self._try(some, stack)[0].any():
                    return (stack,)
        return find_blanks_and_breaks(lines)

    def _take_pasted(self, lines: Lines, known: Offsets) -> tuple[list[WrapperStack], Offsets]:
        """Find the user's own patterns that read lines which known layouts would take, too.

        A pattern without a logger says less than a known layout, and is asked after those.
        """
        given = []
        for stack in self._patterns if len(known) else ():
            (pattern,) = stack.wrappers
            if pattern.how == "pasted" and pattern.names_logger:  # type: ignore[attr-defined]
                read, _, _ = self._try(cut_lines(lines, known), stack)
                if 2 * int(read.sum()) >= len(known) or read.sum() >= _MIN_FOUND:
                    given.append(stack)
                    known = known[~read]
        return given, known

    def _find_stacks(self, sample: pa.Array, *, alone: bool) -> tuple[list[WrapperStack], pa.Array]:
        """Find stacks, one after the other, until they read all that can be read.

        Returns the lines that none reads, too. One that would make records of lines that an earlier
        one reads is asked after that one.
        """
        left = sample
        stacks: list[WrapperStack] = []
        owned: list[pa.Array] = []
        while len(left) and len(stacks) < _MAX_STACKS:
            guesses = [one for one in self._guesses if one not in stacks]
            best = self._best_stack(left, guesses, alone=alone and not stacks)
            if best is None:
                break
            stack, read, carried = best
            taken = [place for place, lines in enumerate(owned) if self._takes(stack, lines)]
            place = max(taken, default=-1) + 1
            stacks.insert(place, stack)
            owned.insert(place, left.filter(pa.array(read)))
            inner = pc.binary_slice(self._opened(left, stack)[0], 0, _LOOKS_IN)
            looks = pc.match_substring_regex(inner, _HEADS).to_numpy(zero_copy_only=False)
            left = left.filter(pa.array(~read & (~carried | looks)))
        return stacks, left

    def _takes(self, stack: WrapperStack, lines: pa.Array) -> bool:
        """Return True if a stack makes records of most lines, rightly or not."""
        opened = stack.open(TextBuffer.unwrapped(*to_buffer(lines)))
        kinds = match_starts(opened.data, opened.starts, opened.stops, self._judge.signatures)
        return 2 * int(((kinds > 0) & opened.carried).sum()) > len(lines)

    def _best_stack(
        self, left: pa.Array, guesses: Sequence[WrapperStack], *, alone: bool
    ) -> tuple[WrapperStack, Flags, Flags] | None:
        for stack in guesses:
            read, carried, _ = self._try(left, stack)
            if 2 * int(read.sum()) >= len(left):
                return stack, read, carried
        whole = self._wrapping(left.to_pylist())
        if whole is not None:
            read, carried, _ = self._try(left, whole)
            if self._is_enough(left, whole, read):
                return whole, read, carried
        bases = self._bases(left)
        # What stands in a known wrapper is judged by itself: as a whole, every line has a time.
        inside = [*self._patterns, *bases]
        inside += [
            WrapperStack((*base.wrappers, *pattern.wrappers))
            for base in bases
            for pattern in self._patterns
        ]
        inside += [one for base in bases for one in self._layouts_in(left, base)]
        tried = self._try_all(left, [*guesses, *inside], alone=alone)
        if not any(self._is_enough(left, stack, read) for _, stack, read, _ in tried if bases):
            whole_lines = list(self._layouts_in(left, WrapperStack(())))
            tried += self._try_all(left, whole_lines, alone=alone)
        if not tried:
            return None
        _, stack, read, carried = max(tried, key=_rank)
        return stack, read, carried

    def _try_all(
        self, lines: pa.Array, stacks: Sequence[WrapperStack], *, alone: bool
    ) -> list[tuple[float, WrapperStack, Flags, Flags]]:
        tried = []
        for stack in stacks:
            read, carried, worth = self._try(lines, stack)
            if stack.is_found and not alone and read.sum() < _MIN_FOUND:
                continue
            if read.any() or (alone and carried.any() and not stack.is_found):
                tried.append((worth, stack, read, carried))
        return tried

    def _is_enough(self, lines: pa.Array, stack: WrapperStack, read: Flags) -> bool:
        """Return True if a stack reads most of the lines that look like records inside it."""
        opened = stack.open(TextBuffer.unwrapped(*to_buffer(lines)))
        looks = pc.match_substring_regex(opened.to_arrow(), _HEADS).to_numpy(zero_copy_only=False)
        # The parts of a line that goes on are no records each.
        whole = opened.carried & ~opened.continues & ~np.append(False, opened.continues[:-1])
        if stack.is_found and read.sum() < min(_MIN_FOUND, len(lines)):
            return False
        return bool(read.any()) and 2 * int(read.sum()) >= int((looks & whole).sum())

    def _bases(self, left: pa.Array) -> list[WrapperStack]:
        """Return the known wrappers of most lines, one after the other taken off."""
        whole = self._wrapping(left.to_pylist())
        if whole is None:
            part = find_wrapped(left.to_pylist(), self._wrappers)
            # No layout reads these lines as they are, whatever they begin with.
            whole = self._wrapping(part) or self._wrapping(part, ()) if part else None
        if whole is None:
            return []
        return [WrapperStack(whole.wrappers[:size]) for size in range(1, len(whole.wrappers) + 1)]

    def _layouts_in(self, left: pa.Array, base: WrapperStack) -> Iterator[WrapperStack]:
        """Yield the stacks of what is found inside some wrappers."""
        inner, carried = self._opened(left, base)
        if base.wrappers:
            inner = inner.filter(pa.array(carried))
        lines = [line.decode("utf-8", "replace") for line in inner.to_pylist()]
        # The strings of JSON objects have to be unescaped, which wrappers do.
        lines = [
            line
            for line in lines
            if line.strip() and not (line[0] == "{" and line.rstrip()[-1] == "}")
        ]
        self._lacks_date = self._lacks_date or (self._day is None and lacks_date(lines))
        if (end := self._find_ending(lines, base)) is not None:
            yield WrapperStack((*base.wrappers, end), is_found=True)
            cut = end.unwrap(TextBuffer.unwrapped(*to_buffer(inner))).to_arrow().to_pylist()
            short = [line.decode("utf-8", "replace") for line in cut]
            for found in infer_layouts(short, self._judge.loggers, self._day, self._judge.starts):
                for size in range(1, len(found) + 1):
                    yield WrapperStack((*base.wrappers, end, *found[:size]), is_found=True)
        for found in infer_layouts(lines, self._judge.loggers, self._day, self._judge.starts):
            for size in range(1, len(found) + 1):
                yield WrapperStack((*base.wrappers, *found[:size]), is_found=True)

    def _find_ending(self, lines: Sequence[str], base: WrapperStack) -> Wrapper | None:
        """Find what a collector puts behind records and behind the lines below them."""
        inner, _ = self._opened(self._below, base)
        below = [line.decode("utf-8", "replace") for line in inner.to_pylist()]
        heads = [line for line in lines if _RECORD_HEAD.match(line)]
        rest = [line for line in lines if not _RECORD_HEAD.match(line)]
        return find_ending(heads, [*below, *rest], self._judge.loggers)

    def _wrapping(
        self, lines: Sequence[bytes], signatures: Sequence[Signature] | None = None
    ) -> WrapperStack | None:
        text = b"\n".join(lines) + b"\n"
        known = self._judge.signatures if signatures is None else signatures
        return detect_wrappers(text, known, self._wrappers, self._judge.loggers)

    def _opened(self, lines: pa.Array, stack: WrapperStack) -> tuple[pa.Array, Flags]:
        opened = stack.open(TextBuffer.unwrapped(*to_buffer(lines)))
        return opened.to_arrow(), opened.carried

    def _try(self, lines: pa.Array, stack: WrapperStack) -> tuple[Flags, Flags, float]:
        """Return which lines a stack reads, which it opens, and how much it is worth."""
        opened, carried = self._opened(lines, stack)
        trimmed = pc.replace_substring_regex(opened, r"\r*\n(?s:.*)$", "")
        data, bounds = to_buffer(trimmed)
        kinds = match_starts(data, bounds[:-1], bounds[1:], self._judge.signatures)
        read = np.zeros(len(kinds), np.bool_)
        rows = np.flatnonzero(kinds)
        if len(rows):
            everywhere = np.ones(len(rows), np.bool_)
            read[rows] = self._judge.reads(trimmed.take(pa.array(rows)), kinds[rows], everywhere)
        worth = float((read & carried).sum())
        rows = np.flatnonzero(read & carried)
        if stack.is_found and len(rows):
            worth += self._judge.count_known(trimmed.take(pa.array(rows)), kinds[rows])
        return read & carried, carried, worth


def _rank(tried: tuple[float, WrapperStack, Flags, Flags]) -> tuple[float, bool, int]:
    """Rank a stack by what it reads; one that also takes off what ends all lines is better."""
    worth, stack, _, _ = tried
    return worth, any(isinstance(one, FoundEnd) for one in stack.wrappers), -len(stack.wrappers)


def _unread_shapes(left: pa.Array, sampled: int) -> tuple[tuple[str, int], ...]:
    """Return the most frequent shapes of lines that look like records, if they are not few."""
    looks = pc.match_substring_regex(pc.binary_slice(left, 0, _LOOKS_IN), _RECORD)
    lines = left.filter(looks).to_pylist()
    if len(lines) < max(_MIN_FOUND, _UNREAD_SHARE * sampled):
        return ()
    texts = [line.decode("utf-8", "replace")[:_SHAPE_CHARS] for line in lines]
    shapes = Counter(_DIGITS.sub("0", text) for text in texts)
    return tuple(sorted(shapes.items(), key=lambda one: (-one[1], one[0]))[:_MAX_SHAPES])
