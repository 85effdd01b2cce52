"""Every number of the verdict, as the page shows it: that of findings.json, and counted again.

Counted again from the table of events by code that shares nothing with the report (`recount.py`),
and, for what was lost, held against what the cluster's own producers and consumers counted. Two
things cannot be: how sure a finding is, which is a word and no number, and how many
checks were run, which only findings.json tells, since logs do not say what reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests.report.page_outline import outline
from tests.report.recorded import RECORDINGS, SAMPLES
from tests.report.recount import Recount

pytestmark = pytest.mark.slow

Row = dict[str, Any]
CLEAR = "391-rolling"
INCIDENTS = [name for name in RECORDINGS if name != CLEAR]
# What was so all the while dates no incident.
STANDING = {"client-config", "clock-skew", "config-risk", "contradiction"}
WHEN = re.compile(
    r"\w{3} (?P<day>\S+), (?:about )?(?P<begin>\S+)(?: \u2013 (?P<end>\S+) UTC \((?P<lasted>.+?)\)"
    r"(?:, over|; whether it is over cannot be told: the logs of .+ last error)"
    r"| UTC; not over when the logs end at (?P<last>\S+) \((?P<since>.+?) later\): [^.]+)"
    r"\. Confidence in what happened: (?P<sure>\w+)\."
)
HIT = re.compile(
    r"([\d,]+) of ([\d,]+) partitions unavailable(?: \(at most [\d,]+ at once\))?:? "
    r"(.+?)(?:, the other|, while|\.(?!\d))"
)
UNITS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class Case:
    """One recording: what its page says, what findings.json says, and what is counted again."""

    name: str
    says: list[str]
    document: Row
    count: Recount
    out: Path

    @property
    def answer(self) -> dict[str, str]:
        """The parts of the line that says when it was."""
        found = WHEN.fullmatch(self.says[1])
        assert found, self.says[1]
        return found.groupdict(default="")

    def cell(self, name: str) -> str:
        """What stands in a cell."""
        return next(line for line in self.says if line.startswith(f"{name}: "))[len(name) + 2 :]

    @property
    def actions(self) -> list[Row]:
        """What was done to the cluster, and when."""
        truth = json.loads((SAMPLES / self.name / "truth/run.json").read_text("utf-8"))
        return list(truth["actions"])

    @property
    def done(self) -> list[Row]:
        """Those of them that took a broker away without asking it."""
        return [one for one in self.actions if one["do"] in ("kill", "pause")]

    @property
    def found(self) -> list[Row]:
        """The findings that the verdict is about."""
        loud = ("medium", "high", "critical")
        return [one for one in self.document["findings"] if one["severity"] in loud]

    @property
    def happened(self) -> list[Row]:
        """Those of them that began and ended."""
        return [one for one in self.found if one["detector"] not in STANDING]

    def measured(self, detector: str) -> list[Row]:
        """The rows of partitions in the measures of some findings."""
        return [
            row
            for one in self.document["findings"]
            if one["detector"] == detector
            for row in one["measures"]["partitions"]
        ]


@pytest.fixture
def case(request: pytest.FixtureRequest, recorded: Callable[[str], Path]) -> Case:
    out = recorded(request.param)
    lines = outline((out / "report.html").read_text("utf-8")).splitlines()
    says = lines[lines.index("## Summary") + 1 : lines.index("## Timeline")]
    document = json.loads((out / "findings.json").read_text("utf-8"))
    return Case(request.param, says, document, Recount(out), out)


each_incident = pytest.mark.parametrize("case", INCIDENTS, indirect=True)


def second(moment: int | str) -> str:
    """Write a moment as the page does: to the second that it lies in."""
    if isinstance(moment, str):
        return moment[:19].replace("T", " ")
    return datetime.fromtimestamp(moment // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def millis(text: str) -> int:
    """Read a moment of findings.json."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def assert_lasts(says: str, exact: int) -> None:
    """A length of time in words is the exact one, to half of the last unit that it is given in."""
    if says == "at once":
        assert exact <= 0
        return
    parts = re.findall(r"([\d,.]+) (ms|s|min|h|d)", says)
    assert " ".join(f"{number} {unit}" for number, unit in parts) == says
    unit = parts[-1][1]
    # Below a minute tenths of seconds are given, unless they are nought.
    fine = 100 if len(parts) == 1 and unit == "s" else UNITS[unit]
    told = sum(float(value.replace(",", "")) * UNITS[name] for value, name in parts)
    assert abs(told - exact) <= fine / 2 + 1e-6, f"{says} for {exact} ms"


def farthest_off(case: Case) -> int:
    """Return by how many milliseconds the start of the longest outage may be wrong."""
    columns = ["started_at", "started_before", "ended_at", "planned"]
    rows = ds.dataset(case.out / "tables/outages").to_table(columns).to_pylist()
    ended = [
        row
        for row in rows
        if not row["planned"] and None not in (row["started_at"], row["ended_at"])
    ]
    longest = max(ended, key=lambda row: row["ended_at"] - row["started_at"])
    before = longest["started_before"]
    return round((before - longest["started_at"]).total_seconds() * 1000) if before else 0


def number(text: str) -> int:
    """Read the number that a text begins with."""
    return int(text.split(maxsplit=1)[0].replace(",", ""))


@each_incident
def test_the_one_interval_is_that_of_findings_json(case: Case) -> None:
    begin = min(one["from"] for one in case.happened)
    end = max(one["to"] for one in case.happened)
    worst, says = case.found[0], case.answer

    assert case.says[0].startswith(f"{worst['severity']} ")
    assert says["sure"] == worst["confidence"]
    assert f"{says['day']} {says['begin']}" == second(begin)
    is_open = end == case.document["window"]["to"]
    assert bool(says["last"]) == is_open
    assert f"{says['day']} {says['last'] or says['end']}" == second(end)
    assert_lasts(says["since"] or says["lasted"], millis(end) - millis(begin))
    # No other stretch of time is told there.
    assert sum("UTC" in line for line in case.says) == 1


@each_incident
def test_the_impact_is_that_of_findings_json(case: Case) -> None:
    impact = case.document["impact"]
    told = HIT.search(case.cell("Impact"))

    assert told
    assert number(told[1]) == impact["partitions_unavailable"]
    assert number(told[2]) == impact["partitions"]
    says = told[3].split(" for ")[-1].split(" to ")[-1].removeprefix("for ")
    says, exact = says.removesuffix(" at a time"), round(1000 * impact["longest_s"])
    if (off_by := farthest_off(case)) >= 200:
        # A bound: its leader froze at some moment before.
        assert says == f"about {round((exact + off_by) / 1000)} s"
    else:
        assert_lasts(says, exact)
    assert f"{impact['clients_affected']} of " in case.cell("Impact")


@each_incident
def test_what_was_lost_is_what_findings_json_says(case: Case) -> None:
    rows = [row for row in case.measured("unclean-election") if row["lost_records_max"] > 0]
    cuts = case.measured("truncation")
    said = case.cell("Impact")

    if rows:
        least = sum(row["lost_records_min"] for row in rows)
        most = sum(row["lost_records_max"] for row in rows)
        told = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        assert said.startswith(f"{told} records lost from {rows[0]['partition']}, ")
    else:
        assert said.startswith("No data loss found: ")
    trimmed = sum(row["lost_records_min"] for row in cuts)
    names = {row["partition"] for row in cuts}
    more = " more" if rows else ""
    many = "partition" if len(names) == 1 else "partitions"
    assert f"{trimmed}{more} records truncated on {len(names)} {many} after clean" in said


@each_incident
def test_the_times_and_brokers_of_the_cause_are_the_true_ones(case: Case) -> None:
    """When the first broker was killed or stopped in its tracks, and which ones were, is known."""
    begin = millis(min(one["from"] for one in case.happened))
    brokers = {one["node"].removeprefix("broker-") for one in case.done}
    why = case.cell("Why")

    assert abs(begin - 1000 * case.done[0]["t"]) <= 1000
    assert set(re.findall(r"[Bb]roker (\d)", why)) >= brokers
    assert second(begin)[11:] in why


@each_incident
def test_the_partitions_that_were_unavailable_are_the_true_ones(case: Case) -> None:
    """They had no leader, or one that was killed or stopped in its tracks just then."""
    rows = ds.dataset(case.out / "tables/outages").to_table().to_pylist()
    end = next(one["t"] for one in case.actions if one["do"] == "clients-stopped")
    gone: list[tuple[int, float, float]] = []
    for at, one in enumerate(case.actions):
        if one in case.done:
            after = [two["t"] for two in case.actions[at:] if two.get("node") == one["node"]
                     and two["do"] in ("start", "resume")]  # fmt: skip
            gone.append((int(one["node"][7:]), one["t"], min(after, default=end)))
    states: dict[tuple[str, int], list[Row]] = {}
    for line in (SAMPLES / case.name / "truth/partitions.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        states.setdefault((row["topic"], row["partition"]), []).append(row)
    true = {
        name
        for name, told in states.items()
        for row, after in zip(told, [*told[1:], None], strict=True)
        for since, until in [(row["ts"] / 1000, after["ts"] / 1000 if after else end)]
        if since < end
        and (
            row["leader"] == -1
            or any(who == row["leader"] and a < until and since < b for who, a, b in gone)
        )
    }

    assert {(row["topic"], row["partition"]) for row in rows if not row["planned"]} == true
    assert case.document["impact"]["partitions_unavailable"] == len(true)
    assert case.document["impact"]["partitions"] == len(case.count.epochs)


@each_incident
def test_losses_are_counted_again_from_the_events_and_are_the_true_ones(case: Case) -> None:
    truth = json.loads((SAMPLES / case.name / "truth/run.json").read_text("utf-8"))
    missing = sum(one["lost"] for one in truth["acknowledged"].values())
    lost = [one for one in case.count.losses if one.records]
    total, sure = sum(one.records for one in lost), sum(one.acknowledged for one in lost)
    trimmed = case.count.trimmed
    names = {name for name, _ in trimmed}
    said = " ".join(case.says)

    assert total == missing
    if lost:
        assert f"{total:,} records lost in " in case.says[0]
        assert f"{sure:,} to {total:,} of them had been acknowledged" in said
    else:
        assert "No data loss found: " in said
    assert re.search(
        rf"{sum(trimmed.values())} (more )?records truncated on {len(names)} partition", said
    )


@pytest.mark.parametrize("case", [CLEAR], indirect=True)
def test_the_numbers_of_a_clear_page_are_counted_again(case: Case) -> None:
    files = ds.dataset(case.out / "tables/files").to_table().to_pylist()
    moments = [row[end] for row in files for end in ("first_ts", "last_ts") if row[end]]
    lines = sum(row["lines"] for row in files)
    unread = sum(row["unparsed_lines"] for row in files)
    asked = case.document["detectors"]
    deaf = sum(one["status"] in ("not_evaluable", "failed") for one in asked)

    assert unread == 0
    assert case.says[0] == "clear No incident in these logs"
    assert f"; 100 % of {lines:,} lines understood; {len(asked) - deaf} checks run" in case.says[1]
    assert case.says[1].startswith(second(round(min(moments).timestamp() * 1000)))
    assert second(round(max(moments).timestamp() * 1000))[11:] in case.says[1]
    assert "Rolling restart: brokers 1, 2, 3" in case.cell("Routine")
    assert not case.found
    # The shutdown at the end of the logs left nobody who could serve: it was planned.
    html = (case.out / "report.html").read_text("utf-8").partition('<section id="happened"')[0]
    shown = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert "partitions at the same moment, at most: 23 under-replicated." in shown
    assert "partitions unavailable" not in shown
    assert "without a leader" not in shown


@each_incident
def test_counting_again_would_notice(case: Case) -> None:
    """What is counted depends on the lines: without some of them it is something else."""
    count = case.count
    before = [count.away, count.dark, count.unclean, count.trimmed, count.sustained]
    fewer = Recount(case.out)
    gone = {"process_starting", "truncated", "client_error", "broker_fenced", "partition_state"}
    fewer.events = [row for row in fewer.events if row["kind"] not in gone]
    after = [fewer.away, fewer.dark, fewer.unclean, fewer.trimmed, fewer.sustained]

    assert all(now == type(now)() for now in after)
    assert any(before)


def test_no_clock_of_the_recordings_was_set_right(recorded: Callable[[str], Path]) -> None:
    """Counting again takes times as they were logged; else it would have to correct them, too."""
    for name in RECORDINGS:
        rows = ds.dataset(recorded(name) / "tables/clocks").to_table(["stretches"]).to_pylist()
        offsets = {one["offset_ms"] for row in rows for one in row["stretches"] or ()}
        assert offsets == {0.0}, name


@pytest.mark.parametrize(
    ("says", "exact", "right"),
    [("37.4 s", 37_446, True), ("37.4 s", 37_460, False), ("1 min 5 s", 64_738, True),
     ("1 min 5 s", 66_000, False), ("291 ms", 291, True), ("20 s", 20_049, True),
     ("20 s", 20_100, False), ("about 3 s", 3000, False)],
)  # fmt: skip
def test_lengths_of_time_are_compared_exactly(says: str, exact: int, right: bool) -> None:
    if right:
        assert_lasts(says, exact)
    else:
        with pytest.raises(AssertionError):
            assert_lasts(says, exact)
