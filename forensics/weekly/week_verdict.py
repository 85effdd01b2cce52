"""Better, same or worse: one window against another, by what the logs of both can tell.

That something is there is seen with few logs; that it is not there needs many. So a window is only
called worse where the other one could have shown as much, and only better where it could itself.

What else is different from the week before: rules, versions, brokers and topics.

A broker or a topic that no line names may still be there, so such things are said as what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from forensics.lib.formatting import count, join_names
from forensics.weekly.coverage_normalisation import (
    MIN_COVERED_SHARE,
    MIN_DIFFERENCE,
    Coverage,
    WeekSummary,
    coverage,
    format_coverage,
    same_rules,
    scale_count,
    servers,
    span_of,
)
from forensics.weekly.metrics import BROKER_SIGNALS, CLUSTER_SIGNALS
from forensics.weekly.notes import Notes
from forensics.weekly.recurrence import last_day

NAMES = 8


@dataclass(frozen=True)
class Change:
    """One difference: what it is about, and what changed."""

    what: str
    says: str


def find_changes(now: WeekSummary, then: WeekSummary | None) -> list[Change]:
    """Say what changed since the window before."""
    made = list(_turned(now))
    if then is None:
        return made
    every = (_rules(now, then), _versions(now, then), _brokers(now, then), _topics(now, then))
    return [*(change for found in every for change in found), *made]


def _rules(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    if not same_rules((now, then)):
        old, new = (dict(map(tuple, one["rules"])) for one in (then, now))
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                word = "is new" if name not in old else "is gone" if name not in new else "changed"
                hashes = f" ({_short(old.get(name))} to {_short(new.get(name))})"
                yield Change(
                    "Rules", f"the pack {name} {word}{hashes if word == 'changed' else ''}"
                )
    if now.get("older_rules"):
        names = join_names(list(now["older_rules"]), NAMES)
        many = count(len(now["older_rules"]), "file")
        yield Change("Rules", f"{many} of this week read by older rules: {names}")


def _short(digest: object) -> str:
    return str(digest or "")[:8]


def _versions(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    old, new = then["versions"], now["versions"]
    moved: dict[tuple[str, str], list[str]] = {}
    for node in sorted({*old, *new}):
        if node in old and node in new and old[node] != new[node]:
            words = (join_names(old[node]), join_names(new[node]))
            moved.setdefault(words, []).append(node)
    for (before, after), nodes in moved.items():
        yield Change("Version", f"{join_names(nodes, NAMES)}: Kafka {before}, now {after}")


def _brokers(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    came = [str(one) for one in now["brokers"] if one not in then["brokers"]]
    gone = [str(one) for one in then["brokers"] if one not in now["brokers"]]
    if came:
        yield Change("Broker", f"named for the first time, or again: {join_names(came, NAMES)}")
    if gone:
        yield Change(
            "Broker", f"named the week before, and by no line now: {join_names(gone, NAMES)}"
        )
    mute = [name for name in servers(then) if name not in servers(now)]
    if mute:
        yield Change(
            "Logs", f"had logs the week before, and has none now: {join_names(mute, NAMES)}"
        )


def _topics(now: WeekSummary, then: WeekSummary) -> Iterator[Change]:
    old, new = (_partitions(one) for one in (then, now))
    if any(one["topics"]["topics"] > len(_partitions(one)) for one in (then, now)):
        before, after = (one["topics"]["topics"] for one in (then, now))
        if before != after:
            yield Change("Topic", f"{count(after, 'topic')} named, {before:,} the week before")
        return
    came, gone = sorted(set(new) - set(old)), sorted(set(old) - set(new))
    if came:
        yield Change(
            "Topic", f"named now, and by no line the week before: {join_names(came, NAMES)}"
        )
    if gone:
        yield Change(
            "Topic", f"named the week before, and by no line now: {join_names(gone, NAMES)}"
        )


def _partitions(one: WeekSummary) -> Mapping[str, int]:
    found: Mapping[str, int] = one["topics"]["partitions"]
    return found


def _turned(now: WeekSummary) -> Iterator[Change]:
    for word, names in sorted(now["topic_turns"].items()):
        if names:
            yield Change("Topic", f"{word} according to the logs: {join_names(names, NAMES)}")


WORDS = ("better", "same", "worse", "cannot compare")
INCIDENTS = ("critical", "high", "medium")
# Where findings are equal: which counts matter, and from which difference on. Less is a usual week.
SIGNALS = {
    "records_lost": 1,
    "unclean": 1,
    "minutes_dark": 10,
    "minutes_away": 10,
    "leaders_lost": 50,
    "isr_drops": 50,
}
FACTOR = 2
TITLES = {signal.key: signal.title for signal in (*BROKER_SIGNALS, *CLUSTER_SIGNALS)}


@dataclass(frozen=True)
class _Side:
    """One of two windows, and how much of it is covered."""

    one: WeekSummary
    covered: Coverage

    @property
    def reach(self) -> tuple[Coverage, int]:
        """How much of it is covered, and how long it is."""
        return self.covered, span_of(self.one)


@dataclass(frozen=True)
class WeekVerdict:
    """The word, the numbers behind it, and how much of both windows is covered."""

    word: str
    why: str
    now: Coverage
    then: Coverage | None = None


def compare_weeks(
    now: WeekSummary,
    then: WeekSummary | None,
    notes: Notes | None = None,
    other: str = "the week before",
) -> WeekVerdict:
    """Compare a window with another one, which is called `other`."""
    if then is None:
        why = f"{other} is not in the store"
        return WeekVerdict("cannot compare", why, coverage(now))
    # Who had logs then and has none now may have suffered unseen.
    covered, before = coverage(now, sorted({*servers(now), *servers(then)})), coverage(then)
    if not same_rules((now, then)):
        why = f"{other} was read by other rules"
        return WeekVerdict("cannot compare", why, covered, before)
    notes = (notes or Notes()).resolve_ids((then, now))
    word, why = _direction(_Side(now, covered), _Side(then, before), notes, other)
    lacks = [
        f"the logs cover {format_coverage(one)} of {name}, and {need}"
        for one, name, need, wanted in (
            (covered, "this window", "what is missing may hide trouble", ("better", "same")),
            (before, other, "what is missing there may hide as much", ("worse", "same")),
        )
        if word in wanted and not _enough(one)
    ]
    if lacks:
        return WeekVerdict("cannot compare", "; ".join([why, *lacks]), covered, before)
    return WeekVerdict(word, why, covered, before)


def _enough(covered: Coverage) -> bool:
    return bool(covered[1]) and covered[0] >= MIN_COVERED_SHARE * covered[1]


def _direction(now: _Side, then: _Side, notes: Notes, other: str) -> tuple[str, str]:
    """Compare findings level by level, and counts where those are equal."""
    day = last_day(now.one)
    levels, levels_then = (_levels(side.one, notes, day) for side in (now, then))
    for level in INCIDENTS:
        many, many_then = levels[level], levels_then[level]
        if way := _way(now, many, then, many_then):
            finding = count(many, f"{level} finding")
            told = [f"{finding} against {many_then:,} in {other}"]
            # The worst level decides, but what else moved is told, too.
            rest = (one for one in INCIDENTS if one != level and levels[one] != levels_then[one])
            told += [f"{levels[one]:,} {one} against {levels_then[one]:,}" for one in rest]
            return way, "; ".join(told)
    ways = list(_counted(now, then))
    directions = {way for way, _ in ways}
    words = ", ".join(words for _, words in ways)
    if len(directions) == 1:
        return directions.pop(), f"as many findings of each level as in {other}; {words}"
    mixed = f"; {words}, which point both ways" if ways else ", and no count far from its own"
    return "same", f"as many findings of each level as in {other}{mixed}"


def _way(now: _Side, many: float, then: _Side, many_then: float) -> str | None:
    """Say the direction for what is covered; in equal windows the counts must have it, too."""
    usual = scale_count(many_then, then.reach, now.reach)
    # With hardly a log there is no usual; then the counts must do.
    apart = many - (many_then if usual is None else usual)
    alike = span_of(now.one) == span_of(then.one)
    if apart >= MIN_DIFFERENCE and not (alike and many <= many_then):
        return "worse"
    return "better" if apart <= -MIN_DIFFERENCE and not (alike and many >= many_then) else None


def _counted(now: _Side, then: _Side) -> Iterator[tuple[str, str]]:
    for key, least in SIGNALS.items():
        many, many_then = cluster_total(now.one, key), cluster_total(then.one, key)
        if many is None or many_then is None or abs(many - many_then) < least:
            continue
        if max(many, many_then) < FACTOR * min(many, many_then):
            continue
        if way := _way(now, many, then, many_then):
            yield (
                way,
                f"{lowercase_first(TITLES[key])} {_figure(many)} against {_figure(many_then)}",
            )


def lowercase_first(title: str) -> str:
    """Write a title within a sentence.

    >>> lowered("Drops from an ISR")
    'drops from an ISR'
    """
    return title[:1].lower() + title[1:]


def cluster_total(one: WeekSummary, key: str) -> float | None:
    """Give a count of the whole cluster; None: nobody knows."""
    whole = one["signals"]["cluster"]
    if key in whole:
        value = whole[key]
        return None if value is None else float(value)
    return float(sum(told.get(key, 0) for told in one["signals"]["brokers"].values()))


def _levels(one: WeekSummary, notes: Notes, day: date) -> Counter[str]:
    """Count the incidents of each level that nobody has accepted."""
    found: Counter[str] = Counter()
    for group in one["findings"]:
        if group["incident"] and not notes.accepts(
            notes.current_signature(group["signature"]), day
        ):
            found.update(group["levels"])
    return found


def _figure(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
