"""A trial says which lines are read by which layout, and which lines none reads."""

from __future__ import annotations

from pathlib import Path

from forensics.events.scan import load_scanner
from forensics.ingest.read_plan import plan_reading
from forensics.rule_tools.layout_trial import LayoutTrial, try_layouts

RECORD = "2026-11-18 11:31:{:02},423 | {:<5} | [Broker id=1] no {} (kafka.server.KafkaServer)\n"
PLAIN = "[2026-11-18 11:32:{:02},423] INFO [Broker id=1] no {} (kafka.server.KafkaServer)\n"


def run(text: str, folder: Path) -> LayoutTrial:
    path = folder / "server.log"
    path.write_text(text)
    [trial] = try_layouts(plan_reading([str(path)]).splits, load_scanner().reader)
    return trial


def test_each_layout_is_named_with_its_lines(tmp_path: Path) -> None:
    found = "".join(RECORD.format(n, "WARN" if n % 3 else "INFO", n) for n in range(40))
    plain = "".join(PLAIN.format(n, n) for n in range(30))
    trial = run("Starting 7 workers\n" * 3 + found + plain, tmp_path)

    known = {(one.found, one.first, one.last, one.records) for one in trial.stretches}
    assert known == {("inferred", 4, 43, 40), ("known", 44, 73, 30)}
    assert (trial.lines, trial.unread) == (73, 3)
    assert trial.shapes == {"NAME # NAME": 3}
    assert "lines 44-73" in "\n".join(trial.to_lines())


def test_a_text_that_is_no_log_has_no_layout(tmp_path: Path) -> None:
    trial = run("one line of prose\nand 2 more\n", tmp_path)

    assert trial.stretches == []
    assert trial.unread == trial.lines == 2
