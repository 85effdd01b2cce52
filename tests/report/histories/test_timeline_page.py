"""The picture of a timeline: one page, offline, with nothing of a log in its markup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from forensics.lib.text_format import parse_millis
from forensics.report.histories import build_timelines
from forensics.report.histories.selection import Selection
from forensics.report.histories.timeline_page import write_page
from forensics.report.page import draw_report as postmortem
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import ELECTED, END, START, at, document, finding, proof, save
from tests.report.test_page import HOSTILE, OURS, Reader, drawings, own

FIREHOSE = "metrics-firehose-1"


def page(out: Path, target: Path, wanted: Selection) -> str:
    run = load_run(out)
    return write_page(run, build_timelines(run, wanted), target).read_text(encoding="utf-8")


def test_the_page_shows_leaders_replicas_and_brokers_with_every_step(
    unclean: Path, tmp_path: Path
) -> None:
    html = page(unclean, tmp_path / "t.html", Selection((FIREHOSE,)))
    [drawing] = drawings(html)
    titles = [note["text"] for note in drawing["layout"]["annotations"]]
    words = {word for trace in drawing["data"] for word in trace.get("text") or ()}

    assert ["Leader epochs", "In sync", "Brokers"] == titles
    assert {"0", "1", "2", "U 3", "crashed", "out"} <= words
    assert "records lost" in {trace.get("name") for trace in drawing["data"]}
    assert "<strong>metrics-firehose-1: 4 leader epochs (0 to 3)" in html
    assert "epoch 3: broker 2 leads; unclean election; observed" in html


def test_what_is_not_known_is_hatched_and_never_coloured_as_known(tmp_path: Path) -> None:
    rows = [
        {"topic": "t", "partition": 0, "leader_epoch": epoch, "leader": 1, "election": "failover",
         "started_at": at(start), "ended_at": at(end), "clean": True, "how": "observed"}
        for epoch, start, end in ((0, 1_000, 9_000), (1, None, 9_000), (2, 9_000, 20_000))
    ]  # fmt: skip
    save(tmp_path, "leadership", rows)
    write_findings(document([]), tmp_path / "findings.json")

    [drawing] = drawings(page(tmp_path, tmp_path / "t.html", Selection(("t-0",))))
    bars = {
        (parse_millis(base), (parse_millis(base) or 0) + length): bool(
            trace["marker"].get("pattern", {}).get("shape")
        )
        for trace in drawing["data"]
        if trace["type"] == "bar"
        for base, length in zip(trace["base"], trace["x"], strict=True)
    }

    assert {
        (START + 1_000, START + 9_000): True,
        (START + 9_000, START + 20_000): False,
        (START + 20_000, START + END): True,
    } == bars


def test_a_broker_has_its_findings_its_life_and_what_it_led(unclean: Path, tmp_path: Path) -> None:
    html = page(unclean, tmp_path / "t.html", Selection(brokers=(2,)))
    [drawing] = drawings(html)
    titles = [note["text"] for note in drawing["layout"]["annotations"]]
    led = next(trace for trace in drawing["data"] if trace.get("name") == "partitions led")

    assert ["Findings", "Active controller", "Life", "Partitions led"] == titles
    assert START + ELECTED in map(parse_millis, led["x"])


def test_several_partitions_stand_together_first(unclean: Path, tmp_path: Path) -> None:
    html = page(unclean, tmp_path / "t.html", Selection(topics=("orders-v2",), brokers=(1,)))
    tags = Reader(own(html)).tags
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    ends = {str(attrs["href"])[1:] for tag, attrs in tags if tag == "a"}

    assert 10 == len(list(drawings(html)))
    assert "The leaders of 8 partitions." in html
    assert len(ids) == len(set(ids))
    assert ends <= set(ids)


def test_the_page_has_the_policy_of_the_postmortem_and_asks_nobody(
    unclean: Path, tmp_path: Path
) -> None:
    html = page(unclean, tmp_path / "t.html", Selection((FIREHOSE,)))
    policies = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    theirs = postmortem(unclean).read_text(encoding="utf-8")

    assert 1 == len(policies)
    assert policies[0] in theirs
    assert not re.search(r"url\(|@import|https?://", own(html))
    assert not [attrs for _, attrs in Reader(own(html)).tags if "src" in attrs]


def test_the_same_input_gives_the_same_bytes(unclean: Path, tmp_path: Path) -> None:
    wanted = Selection((FIREHOSE,), brokers=(1, 2))

    assert page(unclean, tmp_path / "a.html", wanted) == page(unclean, tmp_path / "b.html", wanted)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_stays_text(hostile: str, tmp_path: Path) -> None:
    """No tag, attribute, link or hidden character of a log becomes one of the page."""
    text = hostile.encode("utf-8", "replace").decode()
    lost = {"partition": f"{text}-0", "lost_from": 1, "leader_epoch": 0}
    found = finding(hostile, hostile, hostile, title=hostile, brokers=[1], confidence=hostile,
                    evidence=[proof(1, 1, hostile) | {"file": hostile}],
                    measures={"partitions": [lost]})  # fmt: skip
    place = [{"file": text, "line": 1}]
    common = {"topic": text, "partition": 0, "leader_epoch": 0, "leader": 1, "evidence": place,
              "started_at": at(0), "how": text}  # fmt: skip
    save(tmp_path, "leadership", [common | {"election": text}])
    save(tmp_path, "isr", [common | {"isr": [1], "replicas": [1], "partition_epoch": 0}])
    save(tmp_path, "lanes", [{"node": text, "role": "broker", "broker": 1, "state": text,
                              "started_at": at(0), "evidence": place}])  # fmt: skip
    save(tmp_path, "events", [{"kind": "truncated", "ts": at(5), "node": text, "file": text,
                               "line": 1, "topic": text, "partition": 0, "text": text,
                               "rule": text}])  # fmt: skip
    write_findings(document([found]), tmp_path / "findings.json")
    run = load_run(tmp_path)

    timelines = build_timelines(run, Selection(topics=(text,), brokers=(1,)))
    html = own(write_page(run, timelines, tmp_path / "t.html").read_text(encoding="utf-8"))
    tags = Reader(html).tags

    assert {tag for tag, _ in tags} <= OURS
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert all(str(attrs["href"]).startswith("#") for tag, attrs in tags if tag == "a")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    for drawing in drawings(html):
        words = json.dumps(drawing["data"]) + json.dumps(drawing["layout"])
        assert not re.search(r"<(?!br>|extra>|/extra>)", words)
        assert not re.search(r"hovertemplate[^,]*evil", words)
