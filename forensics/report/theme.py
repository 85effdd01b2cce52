"""Colours: the same broker has the same one on every figure, in every report."""

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
DARK, HATCH, UNCLEAN = "#2a2f37", "#8a929b", "#c00000"
# How bad it is, in colours that no broker has.
BAD, WORSE, WORST = "#a894d1", "#a0691f", "#b01045"
DEBT = {"unavailable": WORST, "under min.insync": WORSE, "under-replicated": BAD}
VERDICT = {"stuck": WORST, "sustained": WORSE, "transient": BAD, "other": HATCH}
LEVEL = {
    "critical": "#b3261e", "high": "#c2410c", "medium": "#a16207", "low": "#33658a",
    "info": "#5f6b76",
}  # fmt: skip
# Colour and pattern of what is not simply "up"; unknown is the same hatch on every figure.
STATE = {
    "starting": ("#bfe3d0", "."),
    "fenced": ("#c9b6d9", "-"),
    "stopping": ("#d9c7a3", "|"),
    "stopped": ("#cfd4da", ""),
    "crashed": (DARK, "x"),
    "paused": ("#8c6bb1", "+"),
    "isolated": ("#5a7fb0", "+"),
    "recovering": ("#8fcfae", "."),
    "healthy": ("#d5ebe0", ""),
    "stale": ("#e69f00", "|"),
    "disconnected": ("#d55e00", "x"),
    "vacant": ("#ffffff", "x"),
    "several states": ("#9aa3ad", "+"),
    "deposed": ("#c00000", "x"),
    "unknown": ("#e3e5e8", "/"),
    # of partitions
    "no leader": (DARK, "x"),
    # laid over other states
    "not served": ("#ffffff", "/"),
    "vanished": ("#ffffff", "/"),
}
# States that are laid over others, with the colour of their lines and what they say.
OVERLAYS = {
    "not served": ("#d00000", "nobody served it: its leader was dead, frozen or cut off"),
    "vanished": (
        DARK,
        "crashed at some moment here, between its last line and the first disconnect",
    ),
}

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
    """Choose black or white letters for a bar of a colour."""
    red, green, blue = _rgb(colour)
    return "#000000" if 299 * red + 587 * green + 114 * blue > 128_000 else "#ffffff"


def _rgb(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
