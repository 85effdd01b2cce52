"""Colours: the same broker has the same one on every figure, in every report.

One that is written `var(--name)` is in page.css, once for light and once for dark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from forensics.run_output.reader import RunOutput

# Okabe and Ito's set, which colour-blind people can tell apart; black is left for "no leader".
OKABE_ITO = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
# The eighth is their black, lighter than what stands for no leader.
EIGHTH_COLOUR = "#6B4C9A"
GREYS = ("#8A94A0", "#A3ACB6", "#6D7782")
MAX_COLOURS = 8
# Nobody leads, nothing runs; no file tells; the edge of every mark, seen on light and dark.
NONE, LACKING, HATCH = "var(--none)", "var(--lacking)", "#8a929b"
# No line tells: quiet in the light and in the dark.
UNKNOWN, GROUND = "var(--unknown)", "var(--ground)"
UNCLEAN = "#d32f2f"
# How bad it is, in colours that no broker has.
BAD, WORSE, WORST = "#9b86cf", "#a0691f", "#c2185b"
DEBT = {"unavailable": WORST, "under min.insync": WORSE, "under-replicated": BAD}
VERDICT = {"stuck": WORST, "sustained": WORSE, "transient": BAD, "other": HATCH}
LEVEL = {name: f"var(--{name})" for name in ("critical", "high", "medium", "low", "info")}
# Colour and pattern of what is not simply "up"; unknown is the same hatch on every figure.
STATE = {
    "starting": ("#bfe3d0", "."),
    "fenced": ("#c9b6d9", "-"),
    "stopping": ("#d9c7a3", "|"),
    "stopped": ("#7b8794", ""),
    "crashed": ("#c62828", "x"),
    "paused": ("#8c6bb1", "+"),
    "isolated": ("#5a7fb0", "+"),
    "recovering": ("#8fcfae", "."),
    "healthy": ("#d5ebe0", ""),
    "stale": ("#e69f00", "|"),
    "disconnected": ("#d55e00", "x"),
    "affected": ("#f4a6a0", "\\"),
    "vacant": ("#ffffff", "x"),
    "several states": ("#9aa3ad", "+"),
    "deposed": (UNCLEAN, "x"),
    "unknown": (UNKNOWN, "/"),
    # of partitions
    "no leader": (NONE, "x"),
    # laid over other states
    "not served": (GROUND, "/"),
    # a grey that stands for any broker's colour: only the legend fills it
    "vanished": ("#c0c4ca", "/"),
    "disk lost": (GROUND, "-"),
}
# What a broker is in without its controller: under ZooKeeper nobody is fenced.
SESSION_LOST = "session lost"
# What the figures call a state, and what a legend says of it, where its name does not say enough.
STATE_WORDS = {
    "paused": "frozen",
    "isolated": "cut off",
    "stale": "retrying",
    "healthy": "running",
    "unknown": "not in the logs",
    "vacant": "no controller",
}
STATE_MEANINGS = {
    "recovering": "recovering (loads its logs)", "stopping": "stopping (clean shutdown)",
    "fenced": "fenced (by the controller)", SESSION_LOST: "session lost (with ZooKeeper)",
    "unknown": "not in the logs", "vacant": "no active controller",
    "healthy": "running (no lost connection logged)",
    "stale": "retrying (leader or topic not found)",
    "affected": "client with a finding (named in the bar)",
}  # fmt: skip
# States that are laid over others, with the colour of their lines and what they say.
OVERLAYS = {
    "not served": (UNCLEAN, "not served: leader dead, frozen or cut off"),
    "disk lost": (WORST, "up without one of its log directories (disk lost)"),
    "vanished": ("#1b1f24", "last line before a crash to the first lost connection"),
}
# What needs no eye to find it: all else is drawn over these.
LASTING = frozenset({"up", "healthy", "leader", "unknown", "stopped", "active"})


def state_words(state: str) -> str:
    """Return what people call a state.

    >>> state_words("paused"), state_words("up")
    ('frozen', 'up')
    """
    return STATE_WORDS.get(state, state)


_ASSIGNED: ContextVar[Mapping[int, str] | None] = ContextVar("assigned", default=None)


def broker_colour(number: int) -> str:
    """Return a broker's colour, by its id alone; grey if others matter more on this page.

    >>> broker_colour(1) == broker_colour(1), broker_colour(1) == broker_colour(8)
    (True, False)
    """
    assigned = _ASSIGNED.get()
    if assigned is not None:
        return assigned.get(number) or GREYS[number % len(GREYS)]
    tint, place = divmod(number, len(OKABE_ITO))
    return _tinted(OKABE_ITO[place], tint % 3)


def assign_colours(numbers: Iterable[int]) -> dict[int, str]:
    """Give each of a few brokers a colour of its own: the one of its id, or else the next one.

    >>> assign_colours([1, 8])[1] == OKABE_ITO[1], assign_colours([1, 8])[8] == OKABE_ITO[2]
    (True, True)
    """
    colours = (*OKABE_ITO, EIGHTH_COLOUR)
    assigned: dict[int, str] = {}
    for number in sorted(set(numbers))[:MAX_COLOURS]:
        place = number % len(OKABE_ITO)
        candidates = (*colours[place:], *colours[:place])
        assigned[number] = next(one for one in candidates if one not in assigned.values())
    return assigned


def choose_brokers(run: RunOutput) -> list[int]:
    """Choose the brokers that get a colour: those of the worst findings first, then by number."""
    weights: Counter[int] = Counter()
    for index, finding in enumerate(run.findings):
        for number in finding.brokers:
            weights[number] += 4 ** (3 * finding.is_incident) + (index == 0)
    rows = run.rows("lanes", ["broker", "role"])
    brokers = {row["broker"] for row in rows if row["role"] == "broker"} | set(weights)
    if len(brokers - {None}) < MAX_COLOURS:
        for chunk in run.chunks("leadership", ["leader"]):
            brokers |= set(chunk["leader"].unique().to_pylist()) - {-1}
    return sorted(brokers - {None}, key=lambda number: (-weights[number], number))[:MAX_COLOURS]


@contextmanager
def use_broker_colours(run: RunOutput) -> Iterator[None]:
    """Draw with colours for the brokers that matter in this run, and greys for all others."""
    token = _ASSIGNED.set(assign_colours(choose_brokers(run)) or None)
    try:
        yield
    finally:
        _ASSIGNED.reset(token)


def _tinted(colour: str, tint: int) -> str:
    # The second and third set of seven are the first, lighter and darker.
    if not tint:
        return colour
    towards = 255 if tint == 1 else 0
    return "#" + "".join(f"{(part + towards) // 2:02X}" for part in _rgb(colour))


def text_colour(colour: str) -> str:
    """Choose black or white letters for a bar of a colour, whichever is read more easily."""
    if colour in (UNKNOWN, GROUND):
        return "var(--text)"
    if colour.startswith("var("):
        return "var(--ground)"
    return "#000000" if contrast(colour, "#000000") > contrast(colour, "#ffffff") else "#ffffff"


def contrast(colour: str, other: str) -> float:
    """Return the contrast of two colours as WCAG defines it, from 1 to 21.

    >>> round(contrast("#000000", "#ffffff"), 2), round(contrast("#767676", "#ffffff"), 2)
    (21.0, 4.54)
    """
    low, high = sorted(map(_luminance, (colour, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    shares = [part / 255 for part in _rgb(colour)]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _rgb(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
