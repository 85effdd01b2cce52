"""Brokers that went on running, but that the others could not reach."""

from __future__ import annotations

from functools import partial

from forensics.history.nodes.broker_states import Absence
from tests.detection.cases import absence, case, logs
from tests.detection.scenarios import Scenario

NAME = "isolated-broker"


def cut(*begins: float, broker: int = 2) -> list[Absence]:
    """Cut a broker off for nine seconds, at some moments."""
    return [absence(broker, "isolated", begin, begin + 9) for begin in begins]


SCENARIOS = [
    Scenario(
        NAME, "fires", "once", partial(case, away=cut(100)),
        [{"severity": "medium", "brokers": [2], "measures": {"cuts": 1, "longest_s": 9.0}}],
    ),
    Scenario(
        NAME, "fires", "twice is one trouble", partial(case, away=cut(100, 300)),
        [{"measures": {"cuts": 2}}],
    ),
    Scenario(
        NAME, "fires", "not over as the logs end",
        partial(case, away=[absence(2, "isolated", 9_900)]), [{"measures": {"longest_s": 100.0}}],
    ),
    Scenario(
        NAME, "fires", "two brokers", partial(case, away=[*cut(100), *cut(500, broker=3)]),
        [{"brokers": [2]}, {"brokers": [3]}],
    ),
    Scenario(
        NAME, "boundary", "an hour apart", partial(case, away=cut(100, 3700)),
        [{"measures": {"cuts": 2}}],
    ),
    Scenario(
        NAME, "boundary", "more than an hour apart", partial(case, away=cut(100, 3700.001)),
        [{}, {}],
    ),
    Scenario(
        NAME, "boundary", "an hour less a second apart", partial(case, away=cut(100, 3699.5)), [{}],
    ),
    Scenario(
        NAME, "quiet", "three times: it flaps", partial(case, away=cut(100, 200, 300)),
    ),
    Scenario(NAME, "quiet", "a crash", partial(case, away=[absence(2, "crash", 100, 120)])),
    Scenario(
        NAME, "blind", "only controllers' logs",
        partial(case, files=[logs("controller-1", 100, role="controller", records=9)]),
        reason="there is no brokers' log",
    ),
]  # fmt: skip
