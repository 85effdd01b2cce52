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

    assert case.cell("Started").startswith(second(begin))
    if end == case.document["window"]["to"]:
        assert case.cell("Ended").startswith("not over")
        lasted = case.cell("Ended").split(", ")[1].removesuffix(" later")
    else:
        assert case.cell("Ended").startswith(second(end))
        lasted = case.cell("Ended").partition("after ")[2]
    assert_lasts(lasted, millis(end) - millis(begin))
    impact = case.document["impact"]
    told = re.fullmatch(
        r"([\d,]+) of ([\d,]+) partitions, up to (.+); ([\d,]+) partition-seconds",
        case.cell("Partitions unavailable"),
    )
    assert told
    assert number(told[1]) == impact["partitions_unavailable"]
    assert number(told[2]) == impact["partitions"]
    assert_lasts(told[3], round(1000 * impact["longest_s"]))
    assert number(told[4]) == round(impact["partition_seconds"])
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

    more = f"and {left} finding{'s' if left > 1 else ''} more"
    assert (more in said) == (left > 0)
    assert (f"{len(deaf)} kind of trouble could not be looked for" in said) == (len(deaf) == 1)
    assert len(deaf) <= 1


@each_incident
def test_times_brokers_and_clients_are_the_true_ones(case: Case) -> None:
    """When the first broker was killed or stopped in its tracks, and which ones were, is known."""
    count, done = case.count, case.done
    begin = millis(min(one["from"] for one in case.happened))
    first = count.first_sign(begin)
    told = case.cell("First effect to first sign")
    what = first["error"] or first["kind"].replace("_", " ")
    sign = f" {first['client'] or first['node']}: {what}, {second(first['at'])[11:]} UTC"
    brokers = {int(one["node"].removeprefix("broker-")) for one in done}

    assert abs(begin - 1000 * done[0]["t"]) <= 1000
    assert case.cell("Started").startswith(second(begin))
    assert case.cell("Brokers") == ", ".join(map(str, sorted(brokers)))
    assert told.endswith(sign)
    assert_lasts(told.removesuffix(sign), first["at"] - begin)
    many = f"{len(count.sustained)} {', '.join(sorted(count.sustained))}".strip()
    assert case.cell("Clients with sustained errors") == many


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
        assert case.answer["loss"] == f"confirmed {total:,} records on {len(lost)} partitions"
        assert f"{sure:,} to {total:,} of the lost records had been acknowledged" in said
    else:
        assert case.answer["loss"] == "none seen"
    assert f"{sum(trimmed.values())} records of {len(names)} partition" in said


@each_incident
def test_the_stretch_of_the_sentence_begins_when_it_did(case: Case) -> None:
    """An unclean election is dated by its elections, all else by when its brokers were gone."""
    count, says, worst = case.count, case.answer, case.found[0]
    begin = millis(worst["from"])
    if count.unclean:
        moments = [at for at, _ in count.unclean.values()]
        assert (begin, millis(worst["to"])) == (min(moments), max(moments))
        assert number(says["whom"]) == len(count.unclean)
    else:
        nodes = {f"broker-{broker}" for broker in worst["brokers"]}
        done = [one for one in case.done if one["node"] in nodes]
        assert abs(begin - 1000 * done[0]["t"]) <= 1000
        assert millis(worst["to"]) >= 1000 * done[-1]["t"]
    assert f"{says['day']} {says['begin']}" == second(begin)


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
