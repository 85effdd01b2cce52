"""Leader epochs that no line states: the quick way gives what the plain one would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.observations import read_observations
from forensics.history.partitions.states import build_states
from tests.history.log_lines import event

Told = tuple[int, int | None, int | None]

versions = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.one_of(st.none(), st.integers(0, 4)),
        st.one_of(st.none(), st.integers(1, 3)),
    ),
    max_size=14,
    unique_by=lambda one: one[0],
)


def plainly(told: list[Told]) -> list[int | None]:
    """Look, for every version, through all others: what leaves one leader epoch gives it."""
    ordered = sorted(told)
    found: list[int | None] = []
    for at, (_, epoch, leader) in enumerate(ordered):
        below = [e for _, e, _ in ordered[:at] if e is not None]
        above = [e for _, e, _ in ordered[at + 1 :] if e is not None]
        low, high = below[-1] if below else None, above[0] if above else None
        only = None
        if low is not None and high is not None:
            known = [(e, who) for _, e, who in ordered if e is not None and who is not None]
            led = {e: {who for other, who in known if other == e} for e in range(low, high + 1)}
            fits = [e for e, who in led.items() if leader in who]
            # An epoch that nobody tells of may have been this leader's, too.
            only = fits[0] if len(fits) == 1 and all(led.values()) else None
        between = low if low is not None and low == high else only
        found.append(between if epoch is None else epoch)
    return found


@given(versions)
def test_leader_epochs_are_filled_in_as_the_plain_way_does(told: list[Told]) -> None:
    rows = [
        # By whom it is told says nothing here.
        event(number, "x", partition_epoch=version, leader_epoch=epoch, leader=leader)
        for number, (version, epoch, leader) in enumerate(told)
    ]
    said = read_observations(rows, Clocks({}, {}, ()), StartupWindows({}, {}))
    states = build_states(said, elr=False)

    assert plainly(told) == [state.leader_epoch for state in states]
