"""What controllers did to many partitions at once, and who triggered it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.history.partitions.observations import has_moment_between
from forensics.lib.time_units import SECOND

_SHUTDOWNS = ("controlled_shutdown_asked", "brokers_shutting_down", "broker_shutdown_granted")
_DELETIONS = ("topic_deleted", "topic_deleting")
# After these a controller elects leaders by itself.
_TRIGGERS = ("leaders_changing", "unclean_enabled", "controller_ready")
_ELECTIONS = ("election_started", "unclean_election_chosen", "brokers_changed")
ACTION_KINDS = (*_SHUTDOWNS, *_DELETIONS, *_TRIGGERS, *_ELECTIONS)

# From the controller's decision until the last replica has logged it, on a busy machine.
_PROPAGATION = 15 * SECOND
# Clocks that nothing corrects may be off by this much.
_EARLY = 2 * SECOND
_TOGETHER = 1 * SECOND

Event = Mapping[str, Any]


@dataclass(frozen=True)
class ControllerActions:
    """Moments of controllers' actions, in microseconds on the reference clock, each in order."""

    shutdowns: Mapping[int, Sequence[int]] = field(default_factory=dict)
    preferred_elections: Sequence[int] = ()
    # what makes a controller elect unclean leaders by itself, or because an admin asked for it
    automatic: Sequence[int] = ()
    manual: Sequence[int] = ()
    deletions: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> ControllerActions:
        """Collect actions from new events of ACTION_KINDS, with corrected times in `at`."""
        shutdowns: dict[int, list[int]] = defaultdict(list)
        deletions: dict[str, list[int]] = defaultdict(list)
        moments: dict[str | None, list[int]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event["at"]):
            if _is_shutdown(event):
                shutdowns[event["broker"]].append(event["at"])
            elif event["kind"] in _DELETIONS and event["topic"]:
                deletions[event["topic"]].append(event["at"])
            else:
                moments[_classify(event)].append(event["at"])
        automatic = moments["automatic"]
        # An election that came with no action of the controller's own was asked for.
        asked = [
            at
            for at in moments["chosen"]
            if not has_moment_between(automatic, at - _TOGETHER, at + _TOGETHER)
        ]
        manual = sorted([*moments["manual"], *asked])
        return cls(shutdowns, moments["preferred"], automatic, manual, deletions)

    def is_shutting_down(self, broker: int | None, at: int | None, early: int = _EARLY) -> bool:
        """Return True if a broker had asked, shortly before, for a controlled shutdown."""
        moments = self.shutdowns.get(broker, ()) if broker is not None else ()
        return _is_due_to(moments, at, early)

    def is_preferred_election(self, at: int | None) -> bool:
        """Return True if the controller elected preferred leaders about then."""
        return _is_due_to(self.preferred_elections, at)

    def unclean_trigger(self, at: int | None) -> str | None:
        """Return whether an unclean election was `automatic` or `manual`; None if nothing tells."""
        automatic, manual = _is_due_to(self.automatic, at), _is_due_to(self.manual, at)
        if automatic == manual:
            # Both near: the moments do not tell which of them it was.
            return None
        return "automatic" if automatic else "manual"


def _is_due_to(moments: Sequence[int], at: int | None, early: int = _EARLY) -> bool:
    return at is not None and has_moment_between(moments, at - _PROPAGATION, at + early)


def _is_shutdown(event: Event) -> bool:
    entering = event["kind"] == "leaders_changing" and event["detail"] == "enterControlledShutdown"
    return event["broker"] is not None and (entering or event["kind"] in _SHUTDOWNS)


def _classify(event: Event) -> str | None:
    """Return which elections an event triggers; `chosen`: an unclean one, by whatever trigger."""
    kind, count = event["kind"], event["count"]
    if kind == "unclean_election_chosen":
        # With the partition's name it is the controller that looks for any leader by itself; with
        # the topic's id it is any unclean election.
        return "automatic" if event["topic"] else "chosen"
    if kind == "election_started" and event["detail"] == "PREFERRED":
        # A regular election that moved no leader says so.
        return "preferred" if count != 0 else None
    if kind == "election_started" and event["detail"] == "UNCLEAN":
        # Under ZooKeeper (no count) an unclean election is only logged so when an admin asks.
        if count is None:
            return "manual"
        return "automatic" if count else None
    if kind == "brokers_changed":
        return "automatic" if event["added"] or event["bounced"] else None
    return "automatic" if kind in _TRIGGERS else None
