"""The one sentence that sums a timeline up, from its steps.

How a timeline words times, brokers and elections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from forensics.lib.formatting import count, duration, time_text
from forensics.report.histories.model import ShownTime, Step
from forensics.run_output.findings import WORST_FIRST


def format_time(at: int | None, after: int | None = None) -> str:
    """Say a time to the millisecond; the date is left out where it is that of `after`.

    >>> format_time(1500, 0)
    '00:00:01.500'
    """
    text = time_text(at, exact=True)
    same_day = at is not None and after is not None and time_text(after)[:10] == text[:10]
    return text[11:] if same_day else text


def describe_end(step: Step, shown: ShownTime) -> str:
    """Say when a step ended and how long it lasted, or what is not known of that.

    >>> describe_end(Step("isr", 0, "", 1500, "known"), ShownTime(0, 9000))
    'until 00:00:01.500 (1.5 s)'
    """
    if step.end_kind == "moment":
        return ""
    if step.end_kind == "unknown":
        latest = "" if step.end is None else f", {format_time(step.end, step.start)} at the latest"
        return f"until a time that is not known{latest}"
    if step.end is None or step.end_kind == "open":
        further = (
            ""
            if step.start is None
            else f" (they reach {duration(max(0, shown.last - step.start))} further)"
        )
        return f"not seen to end in these logs{further}"
    long = "" if step.start is None else f" ({duration(step.end - step.start)})"
    if step.end_kind == "sure":
        return f"surely until {format_time(step.end, step.start)}{long}, not known after that"
    return f"until {format_time(step.end, step.start)}{long}"


def describe_leader(leader: int | None) -> str:
    """Say who leads.

    >>> describe_leader(2), describe_leader(-1), describe_leader(None)
    ('broker 2', 'nobody', 'not known')
    """
    if leader is None:
        return "not known"
    return "nobody" if leader == -1 else f"broker {leader}"


def format_ids(brokers: Sequence[int] | None) -> str:
    """List brokers.

    >>> format_ids([1, 2]), format_ids([]), format_ids(None)
    ('1,2', 'none', 'not known')
    """
    if brokers is None:
        return "not known"
    return ",".join(map(str, brokers)) or "none"


def describe_election(
    kind: str | None, leader: int | None, manner: str | None = None, *, clean: bool | None = None
) -> str:
    """Say how a leader came to lead, and whether a committed record could be lost by it.

    >>> describe_election("controlled_shutdown", 2, clean=True)
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


def format_ranges(numbers: Sequence[int]) -> str:
    """Say sorted numbers, what follows without a gap as a range.

    >>> format_ranges([0, 1, 2, 3, 7, 9, 10])
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


# A list of leaders longer than this is counted, not told.
TOLD = 8


def summarise_partition(name: str, steps: Sequence[Step], shown: ShownTime) -> str:
    """Sum up one partition's leaders, losses and in-sync replicas."""
    reigns = [step for step in steps if step.kind == "leader"]
    if not reigns:
        window = f"{format_time(shown.start)} and {format_time(shown.end)} UTC"
        told = [f"{name}: no line between {window} says who led"]
    else:
        epochs = sorted(step.facts["leader_epoch"] for step in reigns)
        told = [f"{name}: {_epochs(epochs)}, {_leaders(reigns)}"]
    told += _uncleanness(reigns, steps)
    told += _darkness(reigns, shown)
    told += _in_sync(steps)
    told += _unknown(steps, shown)
    return "; ".join(told) + "."


def _epochs(epochs: Sequence[int]) -> str:
    return f"{count(len(epochs), 'leader epoch')} ({format_ranges(epochs)})"


def _leaders(reigns: Sequence[Step]) -> str:
    names = ["?" if (led := step.facts["leader"]) is None else "none" if led == -1 else str(led)
             for step in reigns]  # fmt: skip
    changed = [names[0], *(now for then, now in zip(names, names[1:], strict=False) if now != then)]
    if len(changed) == 1 and changed[0].isdigit():
        return f"led by broker {changed[0]} throughout"
    if len(changed) <= TOLD:
        return f"led by {', '.join(changed)}"
    brokers = sorted({int(name) for name in changed if name.isdigit()})
    return (
        f"led by brokers {format_ranges(brokers)} in {count(len(changed) - 1, 'change')} of leader"
    )


def _uncleanness(reigns: Sequence[Step], steps: Sequence[Step]) -> list[str]:
    unclean = [step.facts["leader_epoch"] for step in reigns if step.facts["clean"] is False]
    unsure = [
        step.facts["leader_epoch"]
        for step in reigns
        if step.facts["clean"] is None and (step.facts["leader"] or 0) >= 0
    ]
    told = [f"unclean election into epoch {format_ranges(sorted(unclean))}"] if unclean else []
    told += [step.text.partition(" (finding")[0] for step in steps if step.kind == "loss"]
    broken = sum(step.kind == "breach" for step in steps)
    if broken:
        told.append(f"{count(broken, 'contradiction')} between its lines")
    if unsure:
        told.append(f"clean or not cannot be told of epoch {format_ranges(sorted(unsure))}")
    return told


def _darkness(reigns: Sequence[Step], shown: ShownTime) -> list[str]:
    dark = [step for step in reigns if step.facts["leader"] == -1]
    if not dark:
        return []
    total = sum(step.known_duration(shown) for step in dark)
    told = [f"without a leader for {duration(total)}"] if total else ["without a leader"]
    if dark[-1].end_kind == "open":
        told.append(f"{'and ' if total else ''}from {format_time(dark[-1].start)} on")
    return [" ".join(told)]


def _in_sync(steps: Sequence[Step]) -> list[str]:
    states = [step for step in steps if step.kind == "isr"]
    sizes = [len(step.facts["isr"]) for step in states if step.facts["isr"] is not None]
    if not sizes:
        return ["in-sync replicas not known"]
    replicas = [len(step.facts["replicas"]) for step in states if step.facts["replicas"]]
    of = f" of {max(replicas)}" if replicas else ""
    least, most = min(sizes), max(sizes)
    few = f"{least}" if least == most else f"{least} to {most}"
    return [f"{few}{of} replicas in sync, {count(len(states), 'version')} of the ISR"]


def _unknown(steps: Sequence[Step], shown: ShownTime) -> list[str]:
    holes = [step for step in steps if _is_hole(step)]
    if not holes:
        return []
    total = sum(step.known_duration(shown) for step in holes)
    long = f" for {duration(total)}" if total else ""
    return [f"who led is not known{long} ({count(len(holes), 'stretch', 'stretches')})"]


def _is_hole(step: Step) -> bool:
    if step.kind == "leader":
        return step.facts["leader"] is None
    return step.kind == "unknown" and step.is_main


def summarise_broker(name: str, steps: Sequence[Step], shown: ShownTime) -> str:
    """Sum up one broker's life, what it led and what was found about it."""
    # Of a controller of a quorum there is nothing more to say than when it reigned.
    only_reigns = bool(steps) and all(step.kind in ("controller", "finding") for step in steps)
    parts = [] if only_reigns else [*_life(steps, shown), *_moves(steps)]
    told = [*parts, *_reigns(steps), *_findings(steps)]
    return f"{name}: {'; '.join(told)}."


def _life(steps: Sequence[Step], shown: ShownTime) -> list[str]:
    states = [step for step in steps if step.kind == "state"]
    if not states:
        return ["no line tells how it was"]
    up = [step for step in states if step.facts["state"] == "up"]
    known = sum(step.known_duration(shown) for step in states)
    times = Counter(step.facts["state"] for step in states)
    served = duration(sum(step.known_duration(shown) for step in up))
    told = [f"up for {served} of the {duration(known)} that are told"]
    told += [
        f"{word} {count(times[state], 'time')}"
        for state, word in (("crashed", "crashed"), ("fenced", "fenced"), ("paused", "paused"),
                            ("stopping", "shut down in order"))
        if times[state]
    ]  # fmt: skip
    last = states[-1]
    if last.end_kind == "open":
        told.append(f"{last.facts['state']} from {format_time(last.start)} on")
    return told


def _reigns(steps: Sequence[Step]) -> list[str]:
    reigns = sum(step.kind == "controller" for step in steps)
    return [f"active controller {count(reigns, 'time')}"] if reigns else []


def _moves(steps: Sequence[Step]) -> list[str]:
    moves: Counter[str] = Counter()
    for step in steps:
        if step.kind == "moves":
            moves[step.facts["move"]] += step.facts["count"]
    if not moves:
        return ["no line tells of a partition that it led"]
    return [f"took over {count(moves['took'], 'partition')} and lost {moves['lost']:,}"]


def _findings(steps: Sequence[Step]) -> list[str]:
    levels = Counter(step.facts["severity"] for step in steps if step.kind == "finding")
    if not levels:
        return ["no finding names it"]
    worst = ", ".join(f"{levels[level]} {level}" for level in WORST_FIRST if levels[level])
    return [f"{count(sum(levels.values()), 'finding')} ({worst})"]
