"""Better, same or worse: one window against another, by what the logs of both can tell.

That something is there is seen with few logs; that it is not there needs many. So a window is only
called worse where the other one could have shown as much, and only better where it could itself.
Other differences (rules, versions, brokers, topics) are listed beside the verdict: a broker or a
topic that no line names may still be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from forensics.lib.text_format import count, join_names
from forensics.run_output.findings import WORST_FIRST
from forensics.weekly.coverage_normalisation import (
    MIN_COVERED_SHARE,
    MIN_DIFFERENCE,
    WindowCoverage,
    expected_count,
    format_count,
)
from forensics.weekly.notes import NO_NOTES, Notes
from forensics.weekly.week_metrics import BROKER_SIGNALS, CLUSTER_SIGNALS
from forensics.weekly.week_summary import WeekSummary

_MAX_NAMES = 8
_INCIDENT_LEVELS = WORST_FIRST[:3]
# Where findings are equal these counts decide, from this difference on: smaller ones are usual.
_MIN_SIGNAL_CHANGE = {
    "records_lost": 1,
    "unclean": 1,
    "minutes_dark": 10,
    "minutes_away": 10,
    "leaders_lost": 50,
    "isr_drops": 50,
}
_MIN_SIGNAL_FACTOR = 2
_TITLES = BROKER_SIGNALS | CLUSTER_SIGNALS


class WeekVerdict(NamedTuple):
    """The word, the numbers behind it, and how much of both windows is covered."""

    word: str
    why: str
    now: WindowCoverage
    then: WindowCoverage | None = None


class Change(NamedTuple):
    """One difference between two weeks: its subject, and what changed."""

    subject: str
    text: str


def compare_weeks(
    now: WeekSummary, then: WeekSummary | None, notes: Notes = NO_NOTES,
    then_name: str = "the week before",
) -> WeekVerdict:  # fmt: skip
    """Compare a window with another one."""
    if then is None:
        why = f"{then_name} is not in the store"
        return WeekVerdict("cannot compare", why, now.coverage())
    # A server that had logs then and has none now may have suffered unseen.
    covered, covered_then = now.coverage({**now.servers, **then.servers}), then.coverage()
    if now.rules != then.rules:
        why = f"{then_name} was read by other rules"
        return WeekVerdict("cannot compare", why, covered, covered_then)
    notes = notes.resolve_ids((then, now))
    levels, levels_then = (_count_open_levels(one, notes, now) for one in (now, then))
    word, why = _compare_levels(
        levels, levels_then, covered, covered_then, then_name
    ) or _compare_signals(now, then, covered, covered_then, then_name)
    lacks = [
        f"logs cover only {coverage} of {name}, so trouble may be hidden there"
        for coverage, name, words in (
            (covered, "this window", ("better", "same")),
            (covered_then, then_name, ("worse", "same")),
        )
        if word in words and not coverage.reaches(MIN_COVERED_SHARE)
    ]
    if lacks:
        return WeekVerdict("cannot compare", "; ".join([why, *lacks]), covered, covered_then)
    return WeekVerdict(word, why, covered, covered_then)


def _count_open_levels(week: WeekSummary, notes: Notes, now: WeekSummary) -> Counter[str]:
    """Count the incidents of each level that are not accepted at the end of `now`."""
    levels: Counter[str] = Counter()
    for group in week.findings:
        signature = notes.current_signature(group["signature"])
        if group["incident"] and not notes.accepts(signature, now.last_day):
            levels.update(group["levels"])
    return levels


def _compare_levels(
    levels: Mapping[str, int], levels_then: Mapping[str, int],
    now: WindowCoverage, then: WindowCoverage, then_name: str,
) -> tuple[str, str] | None:  # fmt: skip
    """Let the worst level that differs decide, and mention the others; None if none differs."""
    for level in _INCIDENT_LEVELS:
        if word := _direction(levels[level], levels_then[level], now, then):
            findings = count(levels[level], f"{level} finding")
            texts = [f"{findings} against {levels_then[level]:,} in {then_name}"]
            texts += [
                f"{levels[other]:,} {other} against {levels_then[other]:,}"
                for other in _INCIDENT_LEVELS
                if other != level and levels[other] != levels_then[other]
            ]
            return word, "; ".join(texts)
    return None


def _compare_signals(
    now: WeekSummary,
    then: WeekSummary,
    covered: WindowCoverage,
    covered_then: WindowCoverage,
    then_name: str,
) -> tuple[str, str]:
    """Let the counts decide, if they are far apart and all point one way."""
    words, texts = set(), []
    for key, min_change in _MIN_SIGNAL_CHANGE.items():
        value, old = now.count(key), then.count(key)
        if value is None or old is None or abs(value - old) < min_change:
            continue
        is_far = max(value, old) >= _MIN_SIGNAL_FACTOR * min(value, old)
        if is_far and (word := _direction(value, old, covered, covered_then)):
            words.add(word)
            title = lowercase_first(_TITLES[key])
            texts.append(f"{title} {format_count(value)} against {format_count(old)}")
    equal, listing = f"as many findings of each level as {then_name}", ", ".join(texts)
    if len(words) == 1:
        return words.pop(), f"{equal}; {listing}"
    if texts:
        return "same", f"{equal}; {listing}, which point both ways"
    return "same", f"{equal}, and all counts are about the same"


def _direction(value: float, old: float, now: WindowCoverage, then: WindowCoverage) -> str | None:
    """Compare two counts by what is covered; in equal windows the bare counts must agree."""
    usual = expected_count(old, then, now)
    # With hardly a log there is no usual count; then the bare counts must do.
    difference = value - (old if usual is None else usual)
    is_same_length = now.window_ms == then.window_ms
    if difference >= MIN_DIFFERENCE and not (is_same_length and value <= old):
        return "worse"
    if difference <= -MIN_DIFFERENCE and not (is_same_length and value >= old):
        return "better"
    return None


def lowercase_first(title: str) -> str:
    """Write a title within a sentence.

    >>> lowercase_first("Drops from an ISR")
    'drops from an ISR'
    """
    return title[:1].lower() + title[1:]


def find_changes(now: WeekSummary, then: WeekSummary | None) -> list[Change]:
    """List what else changed since the window before."""
    changes: list[Change] = []
    if then is not None:
        changes += _rule_changes(now, then)
        changes += _version_changes(now, then)
        changes += _broker_changes(now, then)
        changes += _topic_changes(now, then)
    for change, topics in sorted(now.topic_turns.items()):
        if topics:
            changes.append(Change("Topic", f"{change} according to the logs: {_names(topics)}"))
    return changes


def _names(names: list[str]) -> str:
    return join_names(names, _MAX_NAMES)


def _rule_changes(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    old, new = (dict(map(tuple, one.rules)) for one in (then, now))
    for name in sorted({*old, *new}):
        if name not in old:
            yield Change("Rules", f"the pack {name} is new")
        elif name not in new:
            yield Change("Rules", f"the pack {name} is gone")
        elif old[name] != new[name]:
            digests = f"{str(old[name])[:8]} to {str(new[name])[:8]}"
            yield Change("Rules", f"the pack {name} changed ({digests})")
    if now.older_rules:
        files = count(len(now.older_rules), "file")
        text = f"{files} of this week read by older rules: {_names(now.older_rules)}"
        yield Change("Rules", text)


def _version_changes(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    nodes_by_change: dict[tuple[str, str], list[str]] = {}
    for node in sorted({*then.versions} & {*now.versions}):
        old, new = then.versions[node], now.versions[node]
        if old != new:
            nodes_by_change.setdefault((join_names(old), join_names(new)), []).append(node)
    for (before, after), nodes in nodes_by_change.items():
        yield Change("Version", f"{_names(nodes)}: Kafka {before}, now {after}")


def _broker_changes(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    if came := [str(broker) for broker in now.brokers if broker not in then.brokers]:
        yield Change("Broker", f"named for the first time, or again: {_names(came)}")
    if left := [str(broker) for broker in then.brokers if broker not in now.brokers]:
        yield Change("Broker", f"named the week before, and by no line now: {_names(left)}")
    if silent := [name for name in then.servers if name not in now.servers]:
        yield Change("Logs", f"had logs the week before, and has none now: {_names(silent)}")


def _topic_changes(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    # A summary names only some of very many topics, so their names are not compared.
    if any(one.topics["topics"] > len(one.topics["partitions"]) for one in (then, now)):
        before, after = then.topics["topics"], now.topics["topics"]
        if before != after:
            yield Change("Topic", f"{count(after, 'topic')} named, {before:,} the week before")
        return
    old, new = {*then.topics["partitions"]}, {*now.topics["partitions"]}
    if came := sorted(new - old):
        yield Change("Topic", f"named now, and by no line the week before: {_names(came)}")
    if left := sorted(old - new):
        yield Change("Topic", f"named the week before, and by no line now: {_names(left)}")
