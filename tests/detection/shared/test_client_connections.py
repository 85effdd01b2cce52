from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forensics.detection.shared.client_connections import is_up
from forensics.history.nodes.broker_states import Span

moments = st.integers(0, 40)
spans = st.lists(
    st.builds(
        lambda state, begin, length: Span(state, begin, None if length > 12 else begin + length),
        st.sampled_from(["up", "crashed"]), moments, st.integers(0, 15),
    ),
    max_size=6,
)  # fmt: skip
LOGS_END = 35


@given(spans, moments, st.integers(0, 5))
def test_a_broker_is_up_if_one_of_its_times_holds_the_moment_and_what_is_around_it(
    lane: list[Span], moment: int, near: int
) -> None:
    history = SimpleNamespace(lanes=SimpleNamespace(brokers={1: lane}))
    context: Any = SimpleNamespace(facts={}, logs_end=LOGS_END, history=history)
    expected = any(
        span.begin + near <= moment
        and (moment <= LOGS_END if span.end is None else moment + near <= span.end)
        for span in lane
        if span.state == "up"
    )
    assert is_up(context, 1, moment, near) == expected
    assert not is_up(context, 2, moment, near)
