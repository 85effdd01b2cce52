"""Messages, annotations and metrics are such as Slack, Grafana and Prometheus take."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.report.exports import TEXT_FORMATS
from forensics.report.exports.messages import escape
from forensics.report.exports.prometheus import escape_label
from forensics.run_output.reader import load_run
from tests.browser.outputs import ATTACKS, told_by

Rewrite = Callable[[Path, dict[str, Any]], None]
MENTIONS = ("<!channel>", "<@U024BE7LH>", "<https://evil.example|click>", "*bold* _it_ ~s~ `x")
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(
    rf"({NAME})(?:\{{((?:{LABEL},?)*)\}})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
)


def text_of(out: Path, form: str) -> str:
    return "".join(TEXT_FORMATS[form](load_run(out), False))


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


def check_blocks(message: dict[str, Any]) -> None:
    """Check what Slack checks: kinds, lengths and numbers of blocks, by its reference."""
    assert set(message) == {"text", "blocks"}
    assert 0 < len(message["text"]) <= 4000
    assert 0 < len(message["blocks"]) <= 50
    for block in message["blocks"]:
        kind = block["type"]
        assert kind in ("header", "section", "context")
        texts = block["elements"] if kind == "context" else [block["text"]]
        assert len(texts) <= 10
        for text in texts:
            plain = kind == "header"
            assert text["type"] == ("plain_text" if plain else "mrkdwn")
            assert 0 < len(text["text"]) <= (150 if plain else 3000)
            assert set(text) <= {"type", "text", "verbatim"}
            assert not ("verbatim" in text and plain)


def test_slack_gets_the_answers_of_the_page(unclean: Path) -> None:
    message = json.loads(text_of(unclean, "slack"))
    whole = "\n".join(strings(message))

    check_blocks(message)
    assert "2,535 to 3,400 records lost in metrics-firehose" in message["blocks"][0]["text"]["text"]
    for title in ("*Impact*", "*Do now*", "*Not known*", "*Findings*"):
        assert title in whole


@pytest.mark.parametrize("hostile", [*ATTACKS, *MENTIONS, "x" * 5000, "a b " * 3000])
def test_no_text_of_a_log_mentions_or_links_in_slack(hostile: str, tmp_path: Path) -> None:
    message = json.loads(text_of(told_by(hostile, tmp_path), "slack"))

    check_blocks(message)
    for text in strings(message["blocks"][1:]):
        assert "<" not in text
        assert ">" not in text
    assert "<" not in message["text"]


@given(st.text(max_size=60))
def test_slack_sets_no_text_in_bold(text: str) -> None:
    outside = re.sub(r"`[^`]*`", "", escape(text))

    assert not re.search(r"(?<!\u2060)[*~]", outside)
    assert not set("<>\n\x1b\u202e") & set(escape(text))


def test_a_webhook_gets_plain_names(unclean: Path) -> None:
    body = json.loads(text_of(unclean, "webhook"))

    assert body["schema"] == 1
    assert (body["verdict"], body["severity"]) == ("incident", "critical")
    assert body["title"].startswith("2,535 to 3,400 records lost")
    assert len(body["findings"]) == 5
    assert body["findings"][0]["from"].endswith("Z")
    assert body["do_now"]


def test_a_clear_run_is_a_short_message(quiet: Path) -> None:
    message = json.loads(text_of(quiet, "slack"))

    check_blocks(message)
    assert message["text"].startswith("No incident in these logs")
    assert json.loads(text_of(quiet, "webhook"))["severity"] is None


@pytest.mark.parametrize("hostile", ["harmless", *ATTACKS, "<script>alert(1)</script>"])
def test_each_annotation_is_a_body_that_grafana_takes(hostile: str, tmp_path: Path) -> None:
    lines = text_of(told_by(hostile, tmp_path), "grafana").splitlines()

    assert lines
    for line in lines:
        body = json.loads(line)
        assert set(body) <= {"time", "timeEnd", "tags", "text"}
        assert isinstance(body["time"], int)
        assert body.get("timeEnd", body["time"] + 1) > body["time"] > 1_000_000_000_000
        assert body["tags"][0] == "kafka-forensics"
        assert all(isinstance(tag, str) for tag in body["tags"])
        assert body["text"]
        assert not set("<>\n\x1b") & set(body["text"])


def test_annotations_stand_where_the_findings_do(unclean: Path) -> None:
    bodies = [json.loads(line) for line in text_of(unclean, "grafana").splitlines()]
    by_tag = {tag: body for body in bodies for tag in body["tags"]}
    finding = next(one for one in load_run(unclean).findings if one.id == "F-3f2a91c0")

    assert by_tag["F-3f2a91c0"]["time"] == finding.start_ms
    assert by_tag["F-3f2a91c0"]["timeEnd"] == finding.end_ms
    assert "summary" in bodies[0]["tags"]


def read_metrics(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read the text format as strictly as its specification is written, without times."""
    assert text.endswith("\n")
    assert "\r" not in text
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    seen: list[str] = []
    current = ""
    for line in text.split("\n")[:-1]:
        if head := re.fullmatch(rf"# HELP ({NAME}) (.+)", line):
            current = head[1]
            assert current not in seen, "the lines of a family stand together"
            seen.append(current)
            assert not re.search(r"\\(?![\\n])", head[2])
        elif kind := re.fullmatch(rf"# TYPE ({NAME}) (gauge|counter|untyped)", line):
            assert kind[1] == current
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == current
            labels = tuple(sorted(re.findall(LABEL, sample[2] or "")))
            assert len(dict(labels)) == len(labels)
            assert (current, labels) not in found
            found[current, labels] = float(sample[5])
    return found


def test_metrics_say_what_findings_json_says(unclean: Path) -> None:
    found = read_metrics(text_of(unclean, "prometheus"))
    values = {
        (name, *(value for _, value in labels)): value for (name, labels), value in found.items()
    }
    impact = load_run(unclean).document.get("impact") or {}

    assert values["kafka_forensics_verdict", "incident"] == 1
    assert values["kafka_forensics_verdict", "clear"] == 0
    assert values["kafka_forensics_findings", "critical"] == 1
    if impact.get("records_lost_max") is not None:
        assert values["kafka_forensics_records_lost_max",] == impact["records_lost_max"]


def test_a_week_of_a_store_adds_its_signals(unclean: Path) -> None:
    week = {
        "week": "2026-W47", "older_rules": [],
        "signals": {
            "cluster": {"unclean": 2, "records_lost": None},
            "brokers": {"1": {"leaders_lost": 7.5}},
        },
        "nodes": {"broker-1": {"role": "broker", "covered_ms": 5_400_000}},
    }  # fmt: skip
    (unclean / "week.json").write_text(json.dumps(week))
    found = read_metrics(text_of(unclean, "prometheus"))

    assert found["kafka_forensics_week_info", (("week", "2026-W47"),)] == 1
    assert found["kafka_forensics_week_signal", (("signal", "unclean"),)] == 2
    assert ("kafka_forensics_week_signal", (("signal", "records_lost"),)) not in found
    broker = (("broker", "1"), ("signal", "leaders_lost"))
    assert found["kafka_forensics_week_broker_signal", broker] == 7.5
    covered = (("node", "broker-1"), ("role", "broker"))
    assert found["kafka_forensics_week_covered_hours", covered] == 1.5


@pytest.mark.parametrize("hostile", [*ATTACKS, 'a"b\\c\nd', "\\"])
def test_metrics_stay_metrics_whatever_the_logs_say(hostile: str, tmp_path: Path) -> None:
    out = told_by(hostile, tmp_path)
    week = {"week": hostile, "nodes": {hostile: {"role": hostile, "covered_ms": 1}}}
    (out / "week.json").write_text(json.dumps(week))

    assert read_metrics(text_of(out, "prometheus"))


@given(st.text())
def test_every_label_can_be_read_back(text: str) -> None:
    escaped = escape_label(text)

    assert re.fullmatch(LABEL, f'a="{escaped}"')


def test_the_client_library_of_prometheus_reads_them(unclean: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    text = text_of(unclean, "prometheus")
    families = list(parser.text_string_to_metric_families(text))

    assert len(families) == text.count("# TYPE")
    samples = sum(len(family.samples) for family in families)
    assert samples == len(read_metrics(text))
