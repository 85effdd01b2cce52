"""The same broker has the same colour on every figure, in every report."""

from __future__ import annotations

__all__ = ["DARK", "DEBT", "HATCH", "LEVEL", "STATE", "VERDICT", "broker", "ink"]

# Okabe and Ito's set, told apart by colour-blind people too; black is left for "no leader".
OKABE_ITO = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
DARK, HATCH = "#20242a", "#8a929b"
DEBT = {"no leader": "#D55E00", "under-replicated": "#56B4E9"}
VERDICT = {"stuck": "#D55E00", "sustained": "#E69F00", "transient": "#56B4E9", "other": HATCH}
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
    "crashed": ("#20242a", "x"),
    "paused": ("#8c6bb1", "+"),
    "recovering": ("#8fcfae", "."),
    "healthy": ("#d5ebe0", ""),
    "stale": ("#e69f00", "|"),
    "disconnected": ("#d55e00", "x"),
    "vacant": ("#ffffff", "x"),
    "unknown": ("#e3e5e8", "/"),
}


def broker(number: int) -> str:
    """Give a broker its colour, by its id alone.

    >>> broker(1) == broker(1), broker(1) == broker(8)
    (True, False)
    """
    tint, place = divmod(number, len(OKABE_ITO))
    return _mixed(OKABE_ITO[place], tint % 3)


def _mixed(colour: str, tint: int) -> str:
    # The second and third set of seven are the first, lighter and darker.
    if not tint:
        return colour
    towards = 255 if tint == 1 else 0
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{(part + towards) // 2:02X}" for part in parts)


def ink(colour: str) -> str:
    """Choose black or white letters for a bar of that colour."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#000000" if 299 * red + 587 * green + 114 * blue > 128_000 else "#ffffff"
