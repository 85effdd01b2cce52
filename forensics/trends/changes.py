"""What else is different from the week before: rules, versions, brokers and topics.

A broker or a topic that no line names may still be there, so such things are said as what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from forensics.report.words import count, listed
from forensics.trends.ratios import Summary, same_rules, servers

__all__ = ["Change", "changes"]

NAMES = 8


@dataclass(frozen=True)
class Change:
    """One difference: what it is about, and what changed."""

    what: str
    says: str


def changes(now: Summary, then: Summary | None) -> list[Change]:
    """Say what changed since the window before."""
    made = list(_turned(now))
    if then is None:
        return made
    every = (_rules(now, then), _versions(now, then), _brokers(now, then), _topics(now, then))
    return [*(change for found in every for change in found), *made]


def _rules(now: Summary, then: Summary) -> Iterator[Change]:
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
        names = listed(list(now["older_rules"]), NAMES)
        many = count(len(now["older_rules"]), "file")
        yield Change("Rules", f"{many} of this week read by older rules: {names}")


def _short(digest: object) -> str:
    return str(digest or "")[:8]


def _versions(now: Summary, then: Summary) -> Iterator[Change]:
    old, new = then["versions"], now["versions"]
    moved: dict[tuple[str, str], list[str]] = {}
    for node in sorted({*old, *new}):
        if node in old and node in new and old[node] != new[node]:
            words = (listed(old[node]), listed(new[node]))
            moved.setdefault(words, []).append(node)
    for (before, after), nodes in moved.items():
        yield Change("Version", f"{listed(nodes, NAMES)}: Kafka {before}, now {after}")


def _brokers(now: Summary, then: Summary) -> Iterator[Change]:
    came = [str(one) for one in now["brokers"] if one not in then["brokers"]]
    gone = [str(one) for one in then["brokers"] if one not in now["brokers"]]
    if came:
        yield Change("Broker", f"named for the first time, or again: {listed(came, NAMES)}")
    if gone:
        yield Change("Broker", f"named the week before, and by no line now: {listed(gone, NAMES)}")
    mute = [name for name in servers(then) if name not in servers(now)]
    if mute:
        yield Change("Logs", f"had logs the week before, and has none now: {listed(mute, NAMES)}")


def _topics(now: Summary, then: Summary) -> Iterator[Change]:
    old, new = (_partitions(one) for one in (then, now))
    if any(one["topics"]["topics"] > len(_partitions(one)) for one in (then, now)):
        before, after = (one["topics"]["topics"] for one in (then, now))
        if before != after:
            yield Change("Topic", f"{count(after, 'topic')} named, {before:,} the week before")
        return
    came, gone = sorted(set(new) - set(old)), sorted(set(old) - set(new))
    if came:
        yield Change("Topic", f"named now, and by no line the week before: {listed(came, NAMES)}")
    if gone:
        yield Change("Topic", f"named the week before, and by no line now: {listed(gone, NAMES)}")


def _partitions(one: Summary) -> Mapping[str, int]:
    found: Mapping[str, int] = one["topics"]["partitions"]
    return found


def _turned(now: Summary) -> Iterator[Change]:
    for word, names in sorted(now["topic_turns"].items()):
        if names:
            yield Change("Topic", f"{word} according to the logs: {listed(names, NAMES)}")
