"""Finds what stands behind every line of a text: signs, names, closing quotes.

What ends records alone is a part of their layout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from forensics.ingest.logger_names import holds_logger
from forensics.ingest.separator_patterns import gap_form, gap_parts, gap_tokens
from forensics.ingest.wrappers import ESCAPED_END, Wrapper, found_end

# So many of the lines must end alike.
_SHARE = 0.75
# What follows the quote around a line is no longer.
_LONGEST_TAIL, _MAX_QUOTES = 200, 12
_COUNT = re.compile("[0-9]+")
# A sign that ends lines, and so much of a line's end is looked at.
_SIGN, _END_REACH = re.compile(r"[^\w\s()\[\]{}.,:;\"'=-]"), 12
# What a collector puts behind lines: so many tokens, in so many of the lines.
_MAX_ENDING, _ALIKE, _FEW_LINES, _FEW_NAMES = 40, 0.9, 3, 24
_TIMES = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9:]{4,6})?"
    r"|\b1[0-9]{9,18}\b"
)
_ANY_TIME = r"[0-9][0-9T:.,+ -]*Z?"
# So many signs, one behind the other, are no end of a record.
_MANY_SIGNS = re.compile(r"[^\w\s\"']{3,}$")
_WORD, _BLANK = re.compile(r"([A-Za-z0-9][\w.@-]*)"), re.compile(r"[ \t]")


def find_ending(
    lines: Sequence[str], below: Sequence[str], loggers: Collection[str]
) -> Wrapper | None:
    """Find what a collector puts behind every line: behind records and behind the lines below.

    What ends records alone is a part of their layout.
    """
    if len(lines) < _FEW_LINES or len(below) < _FEW_LINES:
        return None
    if (sign := _shared_sign(lines, below)) is not None:
        return sign
    cut = [gap_tokens(_TIMES.sub("\0", line.rstrip()))[::-1] for line in (*lines, *below)]
    size = 0
    while size < _MAX_ENDING:
        at = [tokens[size] for tokens in cut if len(tokens) > size]
        kinds = Counter(text if kind == "other" else kind for kind, text in at)
        if max(kinds.values(), default=0) < _ALIKE * len(cut):
            break
        own = [tokens[size][1] for tokens in cut[: len(lines)] if len(tokens) > size]
        if sum(holds_logger(text, loggers) for text in own) > (1 - _ALIKE) * len(own):
            break
        size += 1
    ends = ["".join(text for _, text in reversed(tokens[:size])) for tokens in cut]
    split = [
        _WORD.split(end[end.index(blank[0]) :]) for end in ends if (blank := _BLANK.search(end))
    ]
    forms = Counter(tuple(parts[::2]) for parts in split)
    form, count = max(forms.items(), key=lambda one: (one[1], one[0]), default=((), 0))
    if len(form) < 2 or count < _ALIKE * len(cut):
        return None
    return _write_ending([parts for parts in split if tuple(parts[::2]) == form])


def _shared_sign(lines: Sequence[str], below: Sequence[str]) -> Wrapper | None:
    """Find a sign that ends nearly all lines, such as that of a line break."""
    found = ""
    some = [[line.rstrip("\r\n") for line in one] for one in (lines, below)]
    for size in range(1, _END_REACH + 1):
        ends = [Counter(line[-size:] for line in one).most_common(1)[0] for one in some]
        if ends[0][0] != ends[1][0] or any(
            count < _ALIKE * len(one) for (_, count), one in zip(ends, some, strict=True)
        ):
            break
        found = ends[0][0]
    if _SIGN.search(found) is None and (signs := _MANY_SIGNS.search(found)):
        return found_end(signs[0], re.escape(signs[0]))
    sign = _SIGN.search(found)
    # A name that ends all lines says who wrote them; what stands in quotes is unescaped, too.
    if sign is None or not _SIGN.match(found[-1]) or '"' in found or "'" in found:
        return None
    blank = r"[ \t]*" if found[: sign.start()].endswith((" ", "\t")) else ""
    return found_end(found[sign.start() :], blank + re.escape(found[sign.start() :]))


def _write_ending(split: Sequence[Sequence[str]]) -> Wrapper:
    """Write the pattern of an ending; its first word of several values may name the writer."""
    pattern = shown = ""
    for at, parts in enumerate(zip(*split, strict=True)):
        names = set(parts)
        text = parts[0]
        if at % 2 == 0:
            pattern += re.escape(text).replace("\0", _ANY_TIME)
        elif len(names) == 1:
            pattern += re.escape(text)
        elif "(?P<origin>" in pattern or len(names) > _FEW_NAMES:
            pattern, text = f"{pattern}{_WORD.pattern[1:-1]}", "..."
        else:
            pattern, text = f"{pattern}(?P<origin>{_WORD.pattern[1:-1]})", "NAME"
        shown += text.replace("\0", "TIME")
    return found_end(shown, pattern)


def shared_end(lines: Sequence[str], quote: str) -> tuple[str, str] | None:
    """Return what closes the quote that nearly all lines begin with, and the pattern of it.

    A line break may be escaped before it; counts may follow, or other texts that are always so.
    """
    lines = [line.rstrip() for line in lines]
    tails = lines
    found: list[str] = []
    for _ in range(_MAX_QUOTES):
        # One quote further to the left: from there on nearly all lines must end alike.
        begins = [
            line.rfind(quote, 0, len(line) - len(tail) + (tail is line) * len(line))
            for line, tail in zip(lines, tails, strict=True)
        ]
        tails = [line[at:] if at >= 0 else line for line, at in zip(lines, begins, strict=True)]
        forms = Counter(gap_form(_COUNT.sub("0", tail.rstrip(","))) for tail in tails)
        literal = Counter(_COUNT.sub("0", tail.rstrip(",")) for tail in tails)
        most = max((forms if not found else literal).values())
        if most <= _SHARE * len(lines):
            break
        best = max(literal, key=lambda tail: (literal[tail], tail))
        found = [tail for tail in tails if _COUNT.sub("0", tail.rstrip(",")) == best]
    if not found or len(found[0]) > _LONGEST_TAIL:
        return None
    # Nothing stands behind the last item of a list.
    listed = any(tail.endswith(",") for tail in found)
    parts = gap_parts([tail[1:].rstrip(",") for tail in found])
    size = len(found[0]) + 2
    ended = sum(f"\\n{quote}" in line[-size:] for line in lines) > _SHARE * len(lines)
    front = ESCAPED_END if ended else ""
    pattern = front + re.escape(quote) + "".join(part.pattern for part in parts)
    shown = quote + "".join(part.shown for part in parts)
    return shown + "," * listed, pattern + ",?" * listed
