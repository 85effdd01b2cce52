"""The histories of single partitions and brokers: what is told, in which order, what is not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.errors import ForensicsError
from forensics.report.histories import build_timelines
from forensics.report.histories.phrases import no_colour, render_lines
from forensics.report.histories.selection import Selection
from forensics.report.histories.timeline import Location, Step, Timeline
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from forensics.settings import Settings
from tests.report.sample_runs import (
    BACK,
    ELECTED,
    END,
    NOTICED_1,
    NOTICED_2,
    START,
    Row,
    at,
    document,
    lanes,
    leadership,
    save,
    unclean_findings,
)

FIREHOSE = "metrics-firehose-1"
SERVER = "broker-1/server.log"


def line(kind: str, after: int, number: int, node: str = "broker-1", **facts: Any) -> Row:
    """Make one event of the first partition of the sample that has everything."""
    return {
        "kind": kind, "ts": at(after), "node": node, "file": SERVER, "line": number,
        "topic": "metrics-firehose", "partition": 1, "text": f"line {number}", "rule": kind,
    } | facts  # fmt: skip


def proofs(*numbers: int) -> list[Row]:
    return [{"file": SERVER, "line": number} for number in numbers]


def epoch(number: int, leader: int | None, start: int | None, end: int | None, **more: Any) -> Row:
    plainly: Row = {
        "topic": "metrics-firehose", "partition": 1, "leader_epoch": number, "leader": leader,
        "started_at": at(start), "ended_at": at(end), "how": "observed", "election": "failover",
        "clean": None if leader in (None, -1) else True, "evidence": proofs(number + 1),
    }  # fmt: skip
    return plainly | more


def version(number: int, isr: list[int] | None, start: int | None, end: int | None,
            leader_epoch: int | None = 0, **more: Any) -> Row:  # fmt: skip
    plainly: Row = {
        "topic": "metrics-firehose", "partition": 1, "partition_epoch": number, "leader": 1,
        "leader_epoch": leader_epoch, "isr": isr, "replicas": [1, 2], "started_at": at(start),
        "ended_at": at(end), "how": "observed", "evidence": proofs(100 + number),
    }  # fmt: skip
    return plainly | more


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., Timeline]:
    """Save tables, and tell the history of their partition."""

    def give(
        epochs: list[Row], versions: list[Row], events: list[Row], **asked: str | None
    ) -> Timeline:
        for name, rows in (("leadership", epochs), ("isr", versions), ("events", events)):
            save(tmp_path, name, rows)
        write_findings(document(unclean_findings()), tmp_path / "findings.json")
        return build_timelines(load_run(tmp_path), Selection((FIREHOSE,), **asked))[0]  # type: ignore[arg-type]

    return give


def only(story: Timeline, what: str) -> list[Step]:
    return [step for step in story.steps if step.kind == what]


def shown(story: Timeline) -> str:
    return "\n".join(render_lines(story, no_colour))


def test_a_partition_begins_with_a_sentence_that_sums_it_up(unclean: Path) -> None:
    story = build_timelines(load_run(unclean), Selection((FIREHOSE,)))[0]

    assert (
        "metrics-firehose-1: 4 leader epochs (0 to 3), led by 2, 1, none, 2; unclean election into "
        "epoch 3; loss: 845 to 1,262 records from offset 0 to 1,261; without a leader for 2.4 s; "
        "0 to 2 of 2 replicas in sync, 5 versions of the ISR."
    ) == story.summary
    assert next(render_lines(story, no_colour)) == story.summary


def test_every_leader_epoch_is_told_with_times_kind_and_evidence(
    told: Callable[..., Timeline],
) -> None:
    story = told(
        [
            epoch(0, 1, 1_000, 5_000, election="initial", log_end=0, high_watermark=0),
            epoch(1, -1, 5_000, 7_400),
            epoch(2, 2, 7_400, None, election="unclean", clean=False, how="inferred"),
        ],
        [],
        [],
    )

    text = shown(story)

    assert (
        "2026-11-18 11:37:41.000  epoch 0: broker 1 leads; initial election, clean; observed; "
        "begun at log end 0, high watermark 0; until 11:37:45.000 (4 s)\n"
        f"{'':27}{SERVER}:1\n"
    ) in text
    assert "epoch 1: no leader; failover; observed; until 11:37:47.400 (2.4 s)" in text
    assert (
        "epoch 2: broker 2 leads; unclean election; inferred; not seen to end in these logs "
        "(they reach 2 min 23 s further)"
    ) in text


def test_versions_say_who_left_and_joined_and_by_whom(told: Callable[..., Timeline]) -> None:
    story = told(
        [epoch(0, 1, 1_000, 9_000), epoch(1, 1, 9_000, None)],
        [
            version(0, [1, 2], 1_000, 3_000),
            version(1, [1], 3_000, 5_000),
            version(2, [1, 2], 5_000, 9_000),
            version(3, [1], 9_000, None, 1),
        ],
        [line("partition_state", 3_000, 101, rule="isr.updated@3.1")],
    )

    says = [step.text for step in only(story, "isr")]

    assert [
        "ISR 1,2 (version 0)",
        "ISR 1 (version 1); 2 left, asked by the leader, broker 1",
        "ISR 1,2 (version 2); 2 joined, no line says by whom",
        "ISR 1 (version 3); 2 left, by the controller, with leader epoch 1",
    ] == says


def test_a_version_that_no_line_states_leaves_the_end_of_the_one_before_open(
    told: Callable[..., Timeline],
) -> None:
    story = told(
        [epoch(0, 1, 1_000, None)],
        [version(0, [1, 2], 1_000, 3_000, ended="observed"), version(3, [1], 3_000, None)],
        [],
    )

    text = shown(story)

    assert "unknown: no line states versions 1, 2 of the ISR, between 0 and 3" in text
    assert "ISR 1,2 (version 0); until a time that is not known, 11:37:43.000 at the latest" in text


def test_holes_between_and_before_leader_epochs_are_said_to_be_unknown(
    told: Callable[..., Timeline],
) -> None:
    story = told(
        [epoch(4, 1, 10_000, 20_000), epoch(5, None, 30_000, 40_000), epoch(6, 2, 40_000, 50_000)],
        [],
        [],
    )

    unknown = [(step.start, step.end) for step in only(story, "unknown")]

    assert [
        (START, START + 10_000),
        (START + 20_000, START + 30_000),
        (START + 50_000, START + END),
    ] == unknown
    assert "leader epochs 0 to 3 came before; no line mentions them" in shown(story)
    assert "epoch 5: unknown: the epoch was, but no line says who led" in shown(story)
    assert "who led is not known for 2 min 10 s (4 stretches)" in story.summary


def test_an_epoch_without_a_time_takes_the_end_of_the_one_before(
    told: Callable[..., Timeline],
) -> None:
    """The row reaches to the next time that is known, but a change lies between."""
    story = told(
        [epoch(0, 1, 1_000, 9_000), epoch(1, 2, None, 9_000), epoch(2, 1, 9_000, None)], [], []
    )

    text = shown(story)

    assert "epoch 0: broker 1 leads; failover, clean; observed; until a time that is not" in text
    assert "time not known           epoch 1: broker 2 leads" in text
    assert [0, 1, 2] == [step.facts["leader_epoch"] for step in only(story, "leader")]


def test_what_is_sure_only_to_a_moment_is_not_told_beyond_it(told: Callable[..., Timeline]) -> None:
    story = told(
        [epoch(0, 1, 1_000, 5_000, ended="unknown"), epoch(1, 2, 9_000, END, ended="open")],
        [version(0, [1], 1_000, 5_000, ended="unknown"), version(1, [2], 9_000, END, ended="open")],
        [],
    )

    assert "observed; surely until 11:37:45.000 (4 s), not known after that" in shown(story)
    assert [(START + 5_000, START + 9_000)] == [
        (step.start, step.end) for step in only(story, "unknown")
    ]
    assert "not seen to end in these logs" in shown(story)


def test_a_cut_says_what_is_gone_and_a_breach_what_contradicts(
    told: Callable[..., Timeline], tmp_path: Path
) -> None:
    place = {"topic": "metrics-firehose", "partition": 1, "started_at": at(6_000)}
    cut = place | {"broker": 1, "cut_to": 0, "log_end": 1262, "leader": 2, "leader_epoch": 3,
                   "written_from": at(2_000), "written_to": at(4_000),
                   "evidence": proofs(9)}  # fmt: skip
    breach = place | {"invariant": "one_leader", "detail": "1 and 2 lead in epoch 3", "count": 2,
                      "evidence": proofs(7, 8)}  # fmt: skip
    save(tmp_path, "cuts", [cut])
    save(tmp_path, "breaches", [breach])

    story = told([epoch(0, 1, 1_000, None)], [], [line("truncated", 6_000, 9, cut_to=0)])

    [gone] = [step.text for step in only(story, "cut")]
    assert (
        "broker 1 cut its log to offset 0; to follow broker 2 in epoch 3; 1,262 records gone from "
        "it, its log had ended at 1,262; written between 2026-11-18 11:37:42.000 and "
        "2026-11-18 11:37:44.000"
    ) == gone
    assert (
        "contradiction, one leader: 1 and 2 lead in epoch 3 (2 times)\n"
        f"{'':29}{SERVER}:7\n{'':29}{SERVER}:8"
    ) in shown(story)
    assert "1 contradiction between its lines" in story.summary


def test_cuts_marks_and_offsets_stand_between_in_the_order_of_time(
    told: Callable[..., Timeline],
) -> None:
    story = told(
        [epoch(0, 1, 1_000, 5_000), epoch(1, 2, 5_000, None, election="unclean", clean=False)],
        [],
        [
            line("truncated", 6_000, 9, cut_to=0),
            line("recovering", 5_100, 8, node="broker-2"),
            line("partition_state", 1_000, 1, leader_epoch=0, log_end=1262, high_watermark=813),
            line("partition_state", 1_500, 2, "broker-2", leader_epoch=0, log_end=1200),
            line("truncated_nothing", 6_000, 3, cut_to=0),
        ],
    )

    assert [
        "epoch 0", "broker-1: log end 1,262, high watermark 813; broker-2: log end 1,200",
        "epoch 1", "broker-2 leads it as recovering from an unclean election",
        "broker-1 cut its log to offset 0: what stood from there on is gone",
    ] == [step.text.partition(":")[0] if step.is_main else step.text
          for step in story.steps if step.kind != "loss"]  # fmt: skip
    assert {Location(SERVER, 9): "line 9"}.items() <= story.texts.items()
    assert "line 9" not in shown(story)
    assert "line 9" in "\n".join(render_lines(story, no_colour, quote=True))


def test_times_of_lines_are_corrected_by_the_clock_of_their_node(
    told: Callable[..., Timeline], tmp_path: Path
) -> None:
    save(tmp_path, "clocks", [{"node": "broker-1", "offset_ms": 700, "zone_shift_minutes": 0}])

    story = told([epoch(0, 1, 1_000, None)], [], [line("truncated", 6_000, 9, cut_to=0)])

    assert [START + 5_300] == [step.start for step in only(story, "cut")]


def test_what_a_finding_says_was_lost_stands_at_its_leader_epoch(unclean: Path) -> None:
    story = build_timelines(load_run(unclean), Selection((FIREHOSE,)))[0]
    loss = only(story, "loss")

    assert [(START + ELECTED, "F-3f2a91c0")] == [
        (step.start, step.facts["finding"]) for step in loss
    ]
    assert "loss: 845 to 1,262 records from offset 0 to 1,261 (finding F-3f2a91c0" in shown(story)


def test_only_the_time_that_was_asked_for_is_told(unclean: Path) -> None:
    story = build_timelines(
        load_run(unclean), Selection((FIREHOSE,), start="11:38:50", end="11:38:51")
    )[0]

    assert [2] == [step.facts["leader_epoch"] for step in only(story, "leader")]
    assert "1 leader epoch (2), led by none" in story.summary


def test_a_broker_is_told_by_its_states_moves_and_findings(unclean: Path) -> None:
    story = build_timelines(load_run(unclean), Selection(brokers=(2,)))[0]

    assert story.summary.startswith("broker 2: up for ")
    assert "crashed 1 time" in story.summary
    assert "took over 7 partitions and lost 0" in story.summary
    assert ["unknown", "up", "crashed", "starting", "up"] == [
        step.text.partition(":")[0] for step in story.steps if step.is_main
    ]
    assert "took over 3 partitions by unclean election (metrics-firehose-0," in shown(story)
    assert "critical finding F-3f2a91c0" in shown(story)


def test_what_a_broker_lost_is_counted_in_strokes(tmp_path: Path) -> None:
    rows = [
        {**row, "previous_leader": 1}
        for row in leadership()
        if row["leader_epoch"] == 1 and row["leader"] != 1
    ]
    save(tmp_path, "leadership", rows)
    save(tmp_path, "lanes", lanes())
    write_findings(document([]), tmp_path / "findings.json")

    story = build_timelines(load_run(tmp_path), Selection(brokers=(1,)))[0]
    lost = [(step.start, step.facts["count"]) for step in only(story, "moves")]

    assert [(START + NOTICED_2, 3), (START + NOTICED_1, 5)] == lost
    assert "took over 0 partitions and lost 8" in story.summary


def test_a_controller_is_told_by_its_reigns(unclean: Path) -> None:
    story = build_timelines(load_run(unclean), Selection(brokers=(100,)))[0]

    assert "controller 100: active controller 1 time; no finding names it." == story.summary
    assert ["active controller"] == [step.text for step in story.steps]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (
            Selection(("metrics-firehos-1",)),
            "nothing about partition metrics-firehos-1. Nearest: metric",
        ),
        (Selection(("orders-v2-9",)), "of topic orders-v2 they mention 0 to 7."),
        (Selection(("orders",)), "for all partitions of a topic: --topic orders"),
        (Selection(topics=("orders-v3",)), "nothing about topic orders-v3. Nearest: orders-v2."),
        (Selection(brokers=(9,)), "nothing about broker 9. Nearest: 1, 2, 3, 100."),
        (Selection(brokers=(1,), start="soon"), "--from soon: write a time in UTC, such as"),
        (
            Selection(brokers=(1,), start="2020-01-01", end="2020-01-02"),
            "The logs reach from 2026",
        ),
        (Selection(brokers=(1,), start="11:39", end="11:38"), "--from is later than --to"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(
    wanted: Selection, says: str, unclean: Path
) -> None:
    with pytest.raises(ForensicsError) as error:
        build_timelines(load_run(unclean), wanted)

    assert says in str(error.value)


def test_all_partitions_of_a_topic_come_in_the_order_of_their_numbers(unclean: Path) -> None:
    stories = build_timelines(load_run(unclean), Selection(topics=("orders-v2",), brokers=(1,)))

    assert [*(f"orders-v2-{number}" for number in range(8)), "broker 1"] == [
        story.name for story in stories
    ]


def test_a_hostile_name_cannot_colour_or_clear_the_terminal(told: Callable[..., Timeline]) -> None:
    node = "\x1b[2Jbroker\u202e"
    story = told([epoch(0, 1, 1_000, None)], [], [line("truncated", 2_000, 9, node, cut_to=1)])

    assert "⟨U+001B⟩[2Jbroker⟨U+202E⟩ cut its log" in shown(story)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), ["timeline", *arguments])


def test_the_command_writes_json_and_nothing_else(unclean: Path, tmp_path: Path) -> None:
    page = tmp_path / "t.html"

    done = call(
        str(unclean), "--partition", FIREHOSE, "--broker", "2", "--json", "--html", page.as_posix()
    )
    first, second = json.loads(done.stdout)["timelines"]

    assert (FIREHOSE, 2) == (first["partition"], second["broker"])
    dark = next(step for step in first["steps"] if step.get("leader") == -1)
    assert ("leader", "known", 2) == (dark["what"], dark["end"], dark["leader_epoch"])
    assert "2026-11-18T11:38:48.922Z" == dark["from"]
    assert "2026-11-18T11:38:51.318Z" == dark["to"]
    assert f"page: {page}\n" == done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["out"], 2, "Say whose history: --partition orders-v2-3"),
        (["{out}", "--broker", "1", "-o", "x"], 1, "is read as it is; leave -o out."),
        (["{out}", "more.log", "--broker", "1"], 1, "is read alone"),
        (["{out}", "--broker", "1", "--html", "/nowhere/t.html"], 1, "there is no folder /nowhere"),
        (["nope.log", "--partition", "orders"], 1, "--topic orders"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(
    arguments: list[str], code: int, says: str, unclean: Path
) -> None:
    done = call(*(argument.format(out=unclean) for argument in arguments))

    assert code == done.exit_code
    assert says in done.stderr


def test_an_archive_is_read_into_a_folder_that_is_gone_afterwards(
    unclean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline is played here by a copy of its output; tests/spark has the real one."""
    folders: list[Path] = []

    def postmortem(settings: Settings, say: Callable[[str], None], _: object) -> None:
        folders.append(settings.out)
        shutil.copytree(unclean, settings.out, dirs_exist_ok=True)
        say("archives   1 piece of work")
        say("warning: x.log: cut off; the rest is read")

    played = types.ModuleType("forensics.pipeline")
    played.__dict__["postmortem"] = postmortem
    monkeypatch.setitem(sys.modules, "forensics.pipeline", played)

    done = call("incident.tgz", "--partition", FIREHOSE)

    assert (0, "warning: x.log: cut off; the rest is read\n") == (done.exit_code, done.stderr)
    assert done.stdout.startswith("metrics-firehose-1: 4 leader epochs")
    assert [False] == [folder.exists() for folder in folders]


def test_an_output_folder_is_told_without_spark_and_at_once(unclean: Path) -> None:
    """The time of the processor counts: the clock's is shared with all that runs beside."""
    code = (
        "import sys, time; from forensics.cli.app import main\n"
        "try: main()\n"
        "finally:\n"
        "    assert 'pyspark' not in sys.modules\n"
        "    assert time.process_time() < 2, time.process_time()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "timeline", str(unclean), "--partition", FIREHOSE],
        capture_output=True, text=True, check=False, env={"JAVA_HOME": "/nowhere"},
        cwd=Path(__file__).parents[3],
    )  # fmt: skip

    assert (0, "") == (done.returncode, done.stderr)
    assert "\x1b" not in done.stdout
    assert done.stdout.startswith("metrics-firehose-1: 4 leader epochs")


def test_the_times_of_the_sample_are_those_that_the_tests_speak_of() -> None:
    """Should the sample change, the sentences above change with it."""
    assert (55_403, 68_922, 71_318, 109_666) == (NOTICED_2, NOTICED_1, ELECTED, BACK)


def test_a_failover_says_why_this_replica_was_taken(told: Callable[..., Timeline]) -> None:
    story = told(
        [
            epoch(0, 2, 1_000, 5_000, replicas=[2, 3, 1], isr=[2, 3, 1], election="initial"),
            epoch(1, 1, 5_000, END, replicas=[2, 3, 1], isr=[1], ended="open"),
        ],
        [],
        [],
    )

    assert "failover, clean; observed; the first in sync of replicas 2, 3, 1" in shown(story)
    assert 1 == shown(story).count("the first in sync")
