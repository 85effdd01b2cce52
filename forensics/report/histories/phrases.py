"""A timeline in words: phrases, the summary of its steps, the text for a terminal, and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from forensics.lib.text_format import count, duration, time_text
from forensics.lib.text_safety import visible
from forensics.lib.time_units import MILLISECOND, to_iso
from forensics.report.histories.timeline import MAX_ROWS, Location, ShownTime, Step, Timeline
from forensics.run_output.findings import WORST_FIRST
from forensics.run_output.reader import RunOutput

# More leaders than this are counted, not listed.
MAX_LEADERS_LISTED = 8
STATE_PHRASES = {
    "crashed": "crashed",
    "fenced": "fenced",
    "paused": "froze",
    "isolated": "was cut off",
    "stopping": "shut down cleanly",
}
# Colours a text by its style.
Paint = Callable[[str, str], str]
# The width of a date and a time: all sentences begin in one column.
WIDTH = len("2026-11-18 11:38:51.321")
ALARMS = frozenset({"breach", "cut", "loss", "unclean"})


def format_time(ms: int | None, after: int | None = None) -> str:
    """Format a time to the millisecond, without the date if it is that of `after`.

    >>> format_time(1500, 0)
    '00:00:01.500'
    """
    text = time_text(ms, exact=True)
    same_day = ms is not None and after is not None and time_text(after)[:10] == text[:10]
    return text[11:] if same_day else text


def describe_end(step: Step, shown: ShownTime) -> str:
    """Describe when a step ended and how long it lasted, as far as it is known.

    >>> describe_end(Step("isr", 0, "", 1500, "known"), ShownTime(0, 9000))
    'until 00:00:01.500 (1.5 s)'
    """
    start, end = step.start, step.end
    if step.end_kind == "moment":
        return ""
    if step.end_kind == "unknown":
        latest = "" if end is None else f", {format_time(end, start)} at the latest"
        return f"until a time that is not known{latest}"
    if end is None or step.end_kind == "open":
        further = "" if start is None else duration(max(0, shown.last - start))
        return "not seen to end in these logs" + (
            f" (they reach {further} further)" if further else ""
        )
    lasted = "" if start is None else f" ({duration(end - start)})"
    if step.end_kind == "sure":
        return f"surely until {format_time(end, start)}{lasted}, not known after that"
    return f"until {format_time(end, start)}{lasted}"


def describe_leader(leader: int | None) -> str:
    """Name a leader.

    >>> describe_leader(2), describe_leader(-1), describe_leader(None)
    ('broker 2', 'nobody', 'not known')
    """
    if leader is None:
        return "not known"
    return "nobody" if leader == -1 else f"broker {leader}"


def format_ids(brokers: Sequence[int] | None) -> str:
    """List the ids of brokers.

    >>> format_ids([1, 2]), format_ids([]), format_ids(None)
    ('1,2', 'none', 'not known')
    """
    if brokers is None:
        return "not known"
    return ",".join(map(str, brokers)) or "none"


def describe_election(
    kind: str | None, leader: int | None, manner: str | None = None, *, clean: bool | None = None
) -> str:
    """Describe how a leader was elected, and whether a committed record could be lost by it.

    >>> describe_election("controlled_shutdown", 2, clean=True)
    'controlled shutdown, clean'
    """
    # The election of an epoch without a leader is how the leader was lost.
    phrase = (kind or "unknown").replace("_", " ")
    if phrase == "unknown":
        phrase = "kind of election not known"
    elif phrase in ("initial", "preferred", "unclean"):
        phrase = f"{phrase} election"
    phrase += f" ({manner.replace('_', ' ')})" if manner else ""
    if leader is None or leader == -1:
        return phrase
    if clean is None:
        return f"{phrase}, clean or not cannot be told"
    return f"{phrase}, clean" if clean else phrase if "unclean" in phrase else f"{phrase}, unclean"


def format_ranges(numbers: Sequence[int]) -> str:
    """List sorted numbers, those without a gap as a range.

    >>> format_ranges([0, 1, 2, 3, 7, 9, 10])
    '0 to 3, 7, 9, 10'
    """
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in ranges
    )


def summarise_partition(name: str, steps: Sequence[Step], shown: ShownTime) -> str:
    """Summarise a partition's leaders, losses and in-sync replicas."""
    leaders = _of_kind(steps, "leader")
    if leaders:
        epochs = sorted(step.facts["leader_epoch"] for step in leaders)
        known = f"{count(len(epochs), 'leader epoch')} ({format_ranges(epochs)})"
        led = f"{known}, {_led_by(leaders)}"
    else:
        window = f"{format_time(shown.start)} and {format_time(shown.end)} UTC"
        led = f"no line between {window} says who led"
    parts = [*_elections(leaders), *_losses(steps), *_undecided(leaders)]
    parts += [*_leaderless(leaders, shown), *_in_sync(steps), *_unknown(steps, shown)]
    return "; ".join([f"{name}: {led}", *parts]) + "."


def _of_kind(steps: Sequence[Step], kind: str) -> list[Step]:
    return [step for step in steps if step.kind == kind]


def _led_by(leaders: Sequence[Step]) -> str:
    ids = (step.facts["leader"] for step in leaders)
    names = ["?" if leader is None else "none" if leader == -1 else str(leader) for leader in ids]
    in_turn = [name for name, _ in groupby(names)]
    if len(in_turn) == 1 and in_turn[0].isdecimal():
        return f"led by broker {in_turn[0]} throughout"
    if len(in_turn) <= MAX_LEADERS_LISTED:
        return f"led by {', '.join(in_turn)}"
    brokers = sorted({int(name) for name in in_turn if name.isdecimal()})
    changes = count(len(in_turn) - 1, "change")
    return f"led by brokers {format_ranges(brokers)} in {changes} of leader"


def _elections(leaders: Sequence[Step]) -> Iterator[str]:
    unclean = [step.facts["leader_epoch"] for step in leaders if step.facts["clean"] is False]
    if unclean:
        yield f"unclean election into epoch {format_ranges(sorted(unclean))}"


def _losses(steps: Sequence[Step]) -> Iterator[str]:
    for step in _of_kind(steps, "loss"):
        yield step.text.partition(" (finding")[0]
    if breaches := len(_of_kind(steps, "breach")):
        yield f"{count(breaches, 'contradiction')} between its lines"


def _undecided(leaders: Sequence[Step]) -> Iterator[str]:
    epochs = [
        step.facts["leader_epoch"]
        for step in leaders
        if step.facts["clean"] is None and (step.facts["leader"] or 0) >= 0
    ]
    if epochs:
        yield f"whether epoch {format_ranges(sorted(epochs))} began cleanly is not known"


def _leaderless(leaders: Sequence[Step], shown: ShownTime) -> Iterator[str]:
    leaderless = [step for step in leaders if step.facts["leader"] == -1]
    if not leaderless:
        return
    total = sum(step.known_duration(shown) for step in leaderless)
    phrase = f"without a leader for {duration(total)}" if total else "without a leader"
    if leaderless[-1].end_kind == "open":
        phrase += f" {'and ' if total else ''}from {format_time(leaderless[-1].start)} on"
    yield phrase


def _in_sync(steps: Sequence[Step]) -> Iterator[str]:
    versions = _of_kind(steps, "isr")
    sizes = [len(step.facts["isr"]) for step in versions if step.facts["isr"] is not None]
    if not sizes:
        yield "in-sync replicas not known"
        return
    replicas = [len(step.facts["replicas"]) for step in versions if step.facts["replicas"]]
    of = f" of {max(replicas)}" if replicas else ""
    low, high = min(sizes), max(sizes)
    size = f"{low}" if low == high else f"{low} to {high}"
    yield f"{size}{of} replicas in sync, {count(len(versions), 'version')} of the ISR"


def _unknown(steps: Sequence[Step], shown: ShownTime) -> Iterator[str]:
    gaps = [
        step
        for step in steps
        if (step.facts["leader"] is None if step.kind == "leader"
            else step.kind == "unknown" and step.is_main)
    ]  # fmt: skip
    if gaps:
        total = sum(step.known_duration(shown) for step in gaps)
        lasted = f" for {duration(total)}" if total else ""
        yield f"who led is not known{lasted} ({count(len(gaps), 'stretch', 'stretches')})"


def summarise_broker(name: str, steps: Sequence[Step], shown: ShownTime) -> str:
    """Summarise a broker's states, what it led and the findings about it."""
    # A controller of a KRaft quorum has only its terms.
    is_controller = bool(steps) and all(step.kind in ("controller", "finding") for step in steps)
    parts = [] if is_controller else [*_states(steps, shown), _moves(steps)]
    if terms := len(_of_kind(steps, "controller")):
        parts.append(f"active controller {count(terms, 'time')}")
    return f"{name}: {'; '.join([*parts, _findings(steps)])}."


def _states(steps: Sequence[Step], shown: ShownTime) -> Iterator[str]:
    states = _of_kind(steps, "state")
    if not states:
        yield "no line tells how it was"
        return
    up = sum(step.known_duration(shown) for step in states if step.facts["state"] == "up")
    known = sum(step.known_duration(shown) for step in states)
    yield f"up for {duration(up)} of the {duration(known)} that are told"
    times = Counter(step.facts["state"] for step in states)
    for state, phrase in STATE_PHRASES.items():
        if times[state]:
            yield f"{phrase} {count(times[state], 'time')}"
    last = states[-1]
    if last.end_kind == "open":
        yield f"{last.facts['state']} from {format_time(last.start)} on"


def _moves(steps: Sequence[Step]) -> str:
    moves: Counter[str] = Counter()
    for step in _of_kind(steps, "moves"):
        moves[step.facts["move"]] += step.facts["count"]
    if not moves:
        return "no line names a partition that it led"
    return f"took over {count(moves['took'], 'partition')} and lost {moves['lost']:,}"


def _findings(steps: Sequence[Step]) -> str:
    levels = Counter(step.facts["severity"] for step in _of_kind(steps, "finding"))
    if not levels:
        return "no finding names it"
    worst = ", ".join(f"{levels[level]} {level}" for level in WORST_FIRST if levels[level])
    return f"{count(sum(levels.values()), 'finding')} ({worst})"


def no_colour(_: str, text: str) -> str:
    """Leave a text as it is."""
    return text


def render_lines(timeline: Timeline, paint: Paint, *, quote: bool = False) -> Iterator[str]:
    """Render a timeline; `quote` adds the texts of the lines of evidence.

    Log text is hostile: control characters are shown as their codes.
    """
    yield paint("summary", _one_line(timeline.summary))
    yield ""
    margin = " " * WIDTH
    if not timeline.steps:
        yield f"{margin}  {paint('unknown', 'nothing is known of this time')}"
    for step in timeline.steps:
        indent = "" if step.is_main else "  "
        time = "time not known" if step.start is None else format_time(step.start)
        text = paint(_style(step), _one_line(step.text))
        end = describe_end(step, timeline.shown)
        yield f"{time:{WIDTH}}  {indent}{text}{f'; {end}' if end else ''}"
        for line in step.evidence:
            yield f"{margin}    {indent}{paint('evidence', _one_line(str(line)))}"
            if quote and (quoted := timeline.texts.get(line)):
                yield f"{margin}      {indent}{paint('quote', _one_line(quoted))}"
    if timeline.omitted:
        omitted = f"{timeline.omitted:,} more rows, after the first {MAX_ROWS:,}"
        yield f"{omitted}: choose --from and --to"


def _one_line(text: str) -> str:
    return visible(text).partition("\n")[0].replace("\t", " ")


def _style(step: Step) -> str:
    if step.kind == "leader":
        if step.facts["clean"] is False:
            return "alarm"
        return {None: "unknown", -1: "alarm"}.get(step.facts["leader"], "main")
    if step.kind in ALARMS:
        return "alarm"
    if step.kind == "state":
        return "main" if step.facts["state"] in ("up", "starting") else "alarm"
    if step.kind == "unknown":
        return "unknown"
    return "main" if step.is_main else "plain"


def to_json(run: RunOutput, timelines: list[Timeline]) -> dict[str, Any]:
    """Return timelines as a JSON object."""
    start, end = run.window or (None, None)
    return {
        "schema": 1,
        "window": {"from": _iso(start), "to": _iso(end)},
        "timelines": [_timeline(timeline) for timeline in timelines],
    }


def _timeline(timeline: Timeline) -> dict[str, Any]:
    return {
        timeline.kind: timeline.name if timeline.kind == "partition" else timeline.broker,
        "summary": timeline.summary,
        "from": _iso(timeline.shown.start),
        "to": _iso(timeline.shown.end),
        "left_out": timeline.omitted,
        "steps": [_step(step, timeline.texts) for step in timeline.steps],
    }


def _step(step: Step, texts: Mapping[Location, str]) -> dict[str, Any]:
    evidence = [
        {"file": line.file, "line": line.line} | ({"text": texts[line]} if line in texts else {})
        for line in step.evidence
    ]
    end = {} if step.end_kind == "moment" else {"to": _iso(step.end), "end": step.end_kind}
    start: dict[str, Any] = {"what": step.kind, "from": _iso(step.start)}
    return {**start, **end, "says": step.text, **step.facts, "evidence": evidence}


def _iso(ms: int | None) -> str | None:
    return None if ms is None else to_iso(ms * MILLISECOND)
