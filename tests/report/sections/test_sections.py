"""What single sections say, and how much of it."""

from __future__ import annotations

from pathlib import Path

from forensics.report.sections import data_loss, findings, leadership, verdict
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import at, document, finding, lost, save, unclean_findings


def test_the_first_screen_says_when_and_how_long(unclean: Path) -> None:
    """From the crash that came first to the last recovery."""
    told = verdict.render(load_run(unclean))

    for words in ("11:38:25 \u2013 11:39:29 UTC (1 min 4 s), over", "3 of 11 partitions"):
        assert words in told


def test_an_action_keeps_prose_and_commands_apart(unclean: Path) -> None:
    """A command is a block to copy; a sentence is not."""
    html = findings.render(load_run(unclean))

    assert (
        '<p>Compare the producers\' counts with the topic.</p><pre class="command" tabindex="0">'
        "<code>kafka-get-offsets.sh --bootstrap-server $BOOTSTRAP --topic metrics-firehose</code>"
    ) in html
    assert (
        "<p>Set <code>unclean.leader.election.enable=false</code> where loss matters.</p>" in html
    )


def test_every_evidence_chip_opens_the_line_itself(unclean: Path) -> None:
    """File and line outside, the raw text inside."""
    html = findings.render(load_run(unclean))

    assert (
        "<summary><code>incident.tgz!broker-1/server.log:19001</code></summary>"
        "<pre>[2026-11-18 11:39:29,101] INFO Truncating to 0 has effect</pre>"
    ) in html


def test_the_ledger_adds_up_and_says_what_has_no_bound(unclean: Path) -> None:
    """Rows without a bound are counted apart; optional columns are shown."""
    rows = [
        lost(0, 2, 900) | {"note": "seen by broker 3", "also_cut": [{"broker": 3, "to": 0}]},
        lost(1, 1002, None) | {"leader": 1002},
    ]
    write_findings(
        document([finding("F-1", "unclean-election", "high", measures={"partitions": rows})]),
        unclean / "findings.json",
    )
    html = data_loss.render(load_run(unclean))

    assert (
        "Total: at least 1,690 records lost; at most 900 on the 1 partition that could be "
        "bounded; 1 partition could not be bounded."
    ) in html
    assert "seen by broker 3" in html
    assert "broker 3, to 0" in html
    assert "# on broker 1002: the line of epoch 1002" in html
    assert "1,002" not in html


def test_a_check_names_the_log_directory_that_a_broker_said(unclean: Path) -> None:
    """Where the settings of a broker are here, its directory is not the reader's to fill in."""
    rows = [lost(0, 2, 900) | {"leader": 3}, lost(1, 2, 900) | {"leader": 7}]
    write_findings(
        document([finding("F-1", "unclean-election", "high", measures={"partitions": rows})]),
        unclean / "findings.json",
    )
    said = {"kind": "setting_seen", "ts": at(0), "node": "broker-3", "setting": "log.dirs"}
    named = [said | {"value": "/data/kafka"}]
    unnamed = data_loss.render(load_run(unclean))
    save(unclean, "events", named)
    html = data_loss.render(load_run(unclean))

    assert "cat /data/kafka/metrics-firehose-0/leader-epoch-checkpoint" in html
    assert 'cat "$LOG_DIR"/metrics-firehose-1/leader-epoch-checkpoint' in html
    assert "Set LOG_DIR to" in html
    assert "/data/kafka" not in unnamed


def test_a_command_holds_no_word_of_a_log_unquoted(unclean: Path) -> None:
    """Names are quoted for the shell; ids are numbers or nothing."""
    row = lost(0, 2, 1) | {"partition": "a; rm -rf /", "leader": "$(x)", "leader_epoch": "`x`"}
    write_findings(
        document([finding("F-1", "unclean-election", "high", measures={"partitions": [row]})]),
        unclean / "findings.json",
    )
    html = data_loss.render(load_run(unclean))

    assert "\"$LOG_DIR\"/'a; rm -rf /'/leader-epoch-checkpoint" in html
    assert "$(x)" not in html
    assert "`x`" not in html


def test_the_unclean_start_is_marked_with_the_letter(unclean: Path) -> None:
    """Red edge and U: seen without colour too."""
    html = leadership.render(load_run(unclean))

    assert '"U 2"' in html
    assert "U, red edge: unclean election" in html
    assert "3 partitions with an unclean election; none was unavailable for more than" in html


def test_unclean_findings_are_all_in_the_page(unclean: Path) -> None:
    """Low ones are folded away, never left out."""
    html = findings.render(load_run(unclean))

    assert all(f'id="{found["id"]}"' in html for found in unclean_findings())
    assert "Show 1 info finding" in html
