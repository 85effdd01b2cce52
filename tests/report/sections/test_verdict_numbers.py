"""Every number of the verdict, as the page shows it: that of findings.json, and counted again.

Counted again from the table of events by code that shares nothing with the report (`recount.py`),
and, for what was lost, held against what the cluster's own producers and consumers counted. Two
things cannot be: how sure a finding is, which is a word and no number, and how many kinds of
trouble were looked for, which only findings.json tells, since logs do not say what reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
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
ANSWER = re.compile(
    r"(?P<level>\w+) (?P<what>.+) on (?P<whom>.+), (?P<day>\S+) (?P<begin>\S+)-(?P<end>\S+) UTC "
    r"\((?P<lasted>.+?)\)(?P<open>, to the end of the logs)?; data loss (?P<loss>.+); "
    r"confidence (?P<sure>\w+)\."
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
        """The parts of the sentence."""
        found = ANSWER.fullmatch(self.says[0])
        assert found, self.says[0]
        return found.groupdict(default="")

    def cell(self, name: str) -> str:
        """What stands in a cell."""
        return next(line for line in self.says if line.startswith(f"{name}: "))[len(name) + 2 :]

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
    says = lines[lines.index("## Verdict") + 1 : lines.index("## Coverage")]
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


def number(text: str) -> int:
    """Read the number that a text begins with."""
    return int(text.split(maxsplit=1)[0].replace(",", ""))


@each_incident
def test_the_sentence_says_what_findings_json_says(case: Case) -> None:
    worst, says = case.found[0], case.answer

    assert says["level"] == worst["severity"]
    assert says["sure"] == worst["confidence"]
    assert f"{says['day']} {says['begin']}" == second(worst["from"])
    assert f"{says['day']} {says['end']}" == second(worst["to"])
    assert_lasts(says["lasted"], millis(worst["to"]) - millis(worst["from"]))
    if re.match(r"\d", says["whom"]):
        assert number(says["whom"]) == len(worst["partitions"])


@each_incident
def test_the_cells_say_what_findings_json_says(case: Case) -> None:
    begin = min(one["from"] for one in case.happened)
    end = max(one["to"] for one in case.happened)
    clients = {client for one in case.happened for client in one["clients"]}
    brokers = sorted({broker for one in case.happened for broker in one["brokers"]})
    hit = {name for one in case.found for name in one["partitions"]}

    assert case.cell("Started").startswith(second(begin))
    if end == case.document["window"]["to"]:
        assert case.cell("Ended").startswith("not over")
        lasted = case.cell("Ended").split(", ")[1].removesuffix(" later")
    else:
        assert case.cell("Ended").startswith(second(end))
        lasted = case.cell("Ended").partition("after ")[2]
    assert_lasts(lasted, millis(end) - millis(begin))
    if hit:
        assert number(case.cell("Partitions hit")) == len(hit)
    else:
        assert case.cell("Partitions hit").startswith("not counted no finding names any of ")
    assert case.cell("Brokers") == ", ".join(map(str, brokers))
    assert number(case.cell("Clients with sustained errors")) == len(clients)


@each_incident
def test_what_was_lost_is_what_findings_json_says(case: Case) -> None:
    rows = case.measured("unclean-election")
    cuts = case.measured("truncation")
    said = " ".join(case.says)

    if rows:
        least = sum(row["lost_records_min"] for row in rows)
        most = sum(row["lost_records_max"] for row in rows)
        many = sum(row["lost_records_max"] > 0 for row in rows)
        told = f"{least:,}" if least == most else f"{least:,}..{most:,}"
        assert case.answer["loss"] == f"confirmed {told} records on {many} partitions"
    else:
        assert case.answer["loss"] == "none seen"
    trimmed = sum(row["lost_records_min"] for row in cuts)
    names = {row["partition"] for row in cuts}
    many_words = "partition" if len(names) == 1 else "partitions"
    assert f"{trimmed} records of {len(names)} {many_words} were cut after clean changes" in said


@each_incident
def test_what_else_there_is_and_what_could_not_be_looked_for(case: Case) -> None:
    """The second number is findings.json's own: see above."""
    said = "\n".join(case.says)
    left = len(case.found) - 4
    deaf = [one for one in case.document["detectors"]
            if one["status"] in ("not_evaluable", "failed")]  # fmt: skip

    assert f"and {left} finding{'s' if left > 1 else ''} more" in said
    assert (f"{len(deaf)} kind of trouble could not be looked for" in said) == (len(deaf) == 1)
    assert len(deaf) <= 1


@each_incident
def test_times_brokers_and_clients_are_counted_again_from_the_events(case: Case) -> None:
    count = case.count
    begin = min(one.begin for one in count.away)
    ends = [one.end for one in count.away] + [one.end for one in count.dark]
    first = count.first_sign(begin)
    told = case.cell("First effect to first sign")
    what = first["error"] or first["kind"].replace("_", " ")
    sign = f" {first['client'] or first['node']}: {what}, {second(first['at'])[11:]} UTC"
    brokers = {one.broker for one in count.away} | set(count.expired)

    assert case.cell("Started").startswith(second(begin))
    if None in ends:
        assert case.cell("Ended").startswith("not over")
    else:
        assert case.cell("Ended").startswith(second(max(end for end in ends if end)))
    assert case.cell("Brokers") == ", ".join(map(str, sorted(brokers)))
    assert told.endswith(sign)
    # All three begin with a crash, and no line says when a process died.
    assert told.startswith("at most ")
    assert_lasts(told.removeprefix("at most ").removesuffix(sign), first["at"] - begin)
    many = f"{len(count.sustained)} {', '.join(sorted(count.sustained))}".strip()
    assert case.cell("Clients with sustained errors") == many


@each_incident
def test_partitions_are_counted_again_from_the_events(case: Case) -> None:
    """Hit is what had no leader, an unclean one, was refused records, or moved with each flap."""
    count = case.count
    left = {one.broker: 0 for one in count.away} | dict(count.expired)
    for one in count.away:
        left[one.broker] += 1
    flapping = [broker for broker, times in left.items() if times >= 3]
    hit = {one.name for one in count.dark} | set(count.unclean) | count.refused
    for broker in flapping:
        hit |= count.moved(broker, count.away[0].begin, count.teardown)

    cell = case.cell("Partitions hit").replace("not counted no finding names any", "0")
    told = re.fullmatch(r"([\d,]+) of ([\d,]+) partitions", cell)
    assert told
    assert [number(one) for one in told.groups()] == [len(hit), len(count.epochs)]


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
        assert case.answer["loss"] == f"confirmed {total:,} records on {len(lost)} partitions"
        assert f"{sure:,} to {total:,} of the lost records had been acknowledged" in said
    else:
        assert case.answer["loss"] == "none seen"
    assert f"{sum(trimmed.values())} records of {len(names)} partition" in said


@each_incident
def test_the_stretch_of_the_sentence_is_counted_again_from_the_events(case: Case) -> None:
    """An unclean election is dated by its elections, all else by when its broker was gone."""
    count, says = case.count, case.answer
    worst = [one for one in count.away if one.broker in case.found[0]["brokers"]]
    begin, end = worst[0].begin, worst[0].end
    if count.unclean:
        moments = [at for at, _ in count.unclean.values()]
        begin, end = min(moments), max(moments)
        assert number(says["whom"]) == len(count.unclean)
    elif says["open"]:
        assert worst[-1].end is None
        last = pc.max(ds.dataset(case.out / "tables/files").to_table(["last_ts"])["last_ts"])
        end = round(last.as_py().timestamp() * 1000)

    assert end is not None
    assert f"{says['day']} {says['begin']}" == second(begin)
    assert f"{says['day']} {says['end']}" == second(end)
    assert_lasts(says["lasted"], end - begin)


@pytest.mark.parametrize("case", [CLEAR], indirect=True)
def test_the_numbers_of_a_clear_page_are_counted_again(case: Case) -> None:
    files = ds.dataset(case.out / "tables/files").to_table().to_pylist()
    moments = [row[end] for row in files for end in ("first_ts", "last_ts") if row[end]]
    lines = sum(row["lines"] for row in files)
    unread = sum(row["unparsed_lines"] for row in files)
    nodes = {row["node"] for row in files if row["node"]}
    asked = case.document["detectors"]
    deaf = sum(one["status"] in ("not_evaluable", "failed") for one in asked)
    hurt = sum(bool(row["damaged"]) for row in files)
    events = ds.dataset(case.out / "tables/events").count_rows()

    assert unread == 0
    assert f"; 100 % of {lines:,} lines understood; " in case.says[0]
    assert second(round(min(moments).timestamp() * 1000)) in case.cell("From")
    assert second(round(max(moments).timestamp() * 1000)) in case.cell("To")
    assert case.cell("Files") == f"{len(files)} of {len(nodes)} nodes, {hurt} damaged"
    assert number(case.cell("Facts read")) == events == case.document["archive"]["events"]
    told = f"{len(asked) - deaf} {deaf} could not be"
    assert case.cell("Kinds of trouble looked for") == told
    assert number(case.cell("Findings of level low or info")) == len(case.document["findings"])
    assert not case.found


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
