"""How a timeline words times, brokers and elections."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.report.timelines.steps import Shown, Step
from forensics.report.words import clock, lasting

__all__ = ["election", "ids", "moment", "runs", "until", "who"]


def moment(at: int | None, after: int | None = None) -> str:
    """Say a time to the millisecond; the date is left out where it is that of `after`.

    >>> moment(1500, 0)
    '00:00:01.500'
    """
    text = clock(at, exact=True)
    same_day = at is not None and after is not None and clock(after)[:10] == text[:10]
    return text[11:] if same_day else text


def until(step: Step, shown: Shown) -> str:
    """Say when a step ended and how long it lasted, or what is not known of that.

    >>> until(Step("isr", 0, "", 1500, "known"), Shown(0, 9000))
    'until 00:00:01.500 (1.5 s)'
    """
    if step.ends == "moment":
        return ""
    if step.ends == "unknown":
        latest = "" if step.until is None else f", {moment(step.until, step.at)} at the latest"
        return f"until a time that is not known{latest}"
    if step.until is None or step.ends == "open":
        further = (
            ""
            if step.at is None
            else f" (they reach {lasting(max(0, shown.last - step.at))} further)"
        )
        return f"not seen to end in these logs{further}"
    long = "" if step.at is None else f" ({lasting(step.until - step.at)})"
    if step.ends == "sure":
        return f"surely until {moment(step.until, step.at)}{long}, not known after that"
    return f"until {moment(step.until, step.at)}{long}"


def who(leader: int | None) -> str:
    """Say who leads.

    >>> who(2), who(-1), who(None)
    ('broker 2', 'nobody', 'not known')
    """
    if leader is None:
        return "not known"
    return "nobody" if leader == -1 else f"broker {leader}"


def ids(brokers: Sequence[int] | None) -> str:
    """List brokers.

    >>> ids([1, 2]), ids([]), ids(None)
    ('1,2', 'none', 'not known')
    """
    if brokers is None:
        return "not known"
    return ",".join(map(str, brokers)) or "none"


def election(
    kind: str | None, leader: int | None, manner: str | None = None, *, clean: bool | None = None
) -> str:
    """Say how a leader came to lead, and whether a committed record could be lost by it.

    >>> election("controlled_shutdown", 2, clean=True)
    'controlled shutdown, clean'
    """
    # The kind of an epoch without a leader is the kind of its loss.
    word = (kind or "unknown").replace("_", " ")
    if word == "unknown":
        word = "kind of election not known"
    elif word in ("initial", "preferred", "unclean"):
        word = f"{word} election"
    word += f" ({manner.replace('_', ' ')})" if manner else ""
    if leader is None or leader == -1:
        return word
    if clean is None:
        return f"{word}, clean or not cannot be told"
    return f"{word}, clean" if clean else word if "unclean" in word else f"{word}, unclean"


def runs(numbers: Sequence[int]) -> str:
    """Say sorted numbers, what follows without a gap as a range.

    >>> runs([0, 1, 2, 3, 7, 9, 10])
    '0 to 3, 7, 9, 10'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    words = (
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in found
    )
    return ", ".join(words)
