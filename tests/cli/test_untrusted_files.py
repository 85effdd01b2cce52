"""Nothing that may have come with logs is configuration or code."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.events.packs import open_pack
from forensics.pipeline import notify_of_programs

LINE = "[2026-11-18 11:31:58,001] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
MARK = "left alone: ./kafka-forensics.yaml"


@pytest.fixture
def incident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of logs that brought a configuration file and a pack that holds Python."""
    folder = tmp_path / "incident"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "server.log").write_text(LINE)
    (folder / "kafka-forensics.yaml").write_text("postmortem:\n  split-size: 4096\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "server.log").write_text(LINE)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(folder)
    return folder


def run(*words: str) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), list(words))


def add_pack(folder: Path) -> Path:
    pack = folder / "pack"
    (pack / "detectors").mkdir(parents=True)
    (pack / "pack.yaml").write_text("name: theirs\nversion: '1'\n")
    (pack / "detectors" / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    return pack


@pytest.mark.parametrize("archive", [".", "logs", "logs/server.log", "..", "../incident/logs"])
def test_a_file_that_lies_with_the_logs_is_left_alone(incident: Path, archive: str) -> None:
    (incident / "kafka-forensics.yaml").write_text("no: [such, command\n")

    done = run("postmortem", archive, "--dry-run")

    assert done.exit_code == 0, done.output
    assert done.stderr.startswith(MARK)
    assert "--config kafka-forensics.yaml" in done.stderr


def test_a_file_inside_a_folder_of_logs_is_left_alone(
    incident: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(incident / "logs")
    (incident / "logs" / "kafka-forensics.yaml").write_text("wrong\n")

    assert MARK in run("postmortem", str(incident), "--dry-run").stderr


def test_a_link_to_the_logs_is_no_other_place(
    incident: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(incident / "logs")
    monkeypatch.chdir(incident)

    assert MARK in run("postmortem", "../link", "--dry-run").stderr


def test_logs_that_the_environment_or_the_file_itself_names_count_too(
    incident: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_FORENSICS_POSTMORTEM_ARCHIVES", "logs")
    assert MARK in run("postmortem", "--dry-run").stderr

    monkeypatch.delenv("KAFKA_FORENSICS_POSTMORTEM_ARCHIVES")
    (incident / "kafka-forensics.yaml").write_text("postmortem:\n  archives: [logs]\n")
    done = run("postmortem", "--dry-run")
    assert done.exit_code == 2
    assert MARK in done.stderr


def test_a_file_that_came_with_a_saved_output_is_left_alone(incident: Path) -> None:
    (incident / "findings.json").write_text("[]")

    assert MARK in run("report", ".").stderr


@pytest.mark.parametrize("words", [("../elsewhere",), (".", "--config", "kafka-forensics.yaml")])
def test_a_file_that_is_the_users_own_is_read(incident: Path, words: tuple[str, ...]) -> None:
    (incident / "kafka-forensics.yaml").write_text("postmortem:\n  split-size: many\n")

    done = run("postmortem", *words, "--dry-run")

    assert done.exit_code == 2
    assert "kafka-forensics.yaml:2: split-size: a number was expected" in done.stderr


def test_a_pack_of_the_configuration_that_holds_python_is_refused(
    incident: Path, tmp_path: Path
) -> None:
    add_pack(incident)
    (incident / "kafka-forensics.yaml").write_text("postmortem:\n  rules: [pack]\n")

    done = run("postmortem", "../elsewhere", "-o", str(tmp_path / "out"))

    assert done.exit_code == 2
    assert "kafka-forensics.yaml:2 names the pack pack, which holds Python" in done.stderr
    assert "--rules pack" in done.stderr
    assert not (incident / "ran").exists()


@pytest.mark.parametrize("command", ["postmortem", "rules check"])
def test_a_pack_of_the_environment_that_holds_python_is_refused(
    incident: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    pack = add_pack(incident)
    name = "RULES_CHECK_PATHS" if command == "rules check" else "POSTMORTEM_RULES"
    monkeypatch.setenv(f"KAFKA_FORENSICS_{name}", str(pack))

    done = run(*command.split(), *(["logs", "--dry-run"] if command == "postmortem" else []))

    assert done.exit_code == 2
    assert "the environment names the pack" in done.stderr
    assert not (incident / "ran").exists()


def test_a_pack_without_python_may_be_named_anywhere(incident: Path) -> None:
    pack = add_pack(incident)
    (pack / "detectors" / "evil.py").unlink()
    (incident / "kafka-forensics.yaml").write_text("postmortem:\n  rules: [pack]\n")

    assert run("postmortem", "../elsewhere", "--dry-run").exit_code == 0


def test_a_pack_that_the_command_line_names_is_taken_and_said(incident: Path) -> None:
    pack = add_pack(incident)
    said: list[str] = []

    assert run("postmortem", "logs", "--dry-run", "--rules", "pack").exit_code == 0
    notify_of_programs([open_pack(pack)], said.append)

    assert said == [f"packs      runs Python of pack {pack}"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('postmortem:\n  out: "a\\0b"\n', "a text with a zero character"),
        ("postmortem:\n  out: ~nobody-of-this-name/x\n  split-size: no\n", "3: split-size"),
        ("a: &a [*a]\n", "an alias that contains itself"),
        ("a: " + "[" * 100_000, "nested more than 100 deep"),
        ("a: " + "x" * (2 << 20), "more than 1 MB"),
    ],
)
def test_a_hostile_file_is_refused_by_file_and_line(incident: Path, text: str, says: str) -> None:
    (incident / "kafka-forensics.yaml").write_text(text)

    done = run("postmortem", "../elsewhere", "--dry-run")

    assert done.exit_code == 2
    assert "kafka-forensics.yaml:" in done.stderr
    assert says in done.stderr
