"""Where values come from: the command line, the environment, a file, the default; and who wins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli import config_file
from forensics.cli.app import jobs_folder, make_group
from forensics.cli.config_file import Option
from forensics.cli.option_sources import configurable_options
from forensics.errors import ConfigError
from tests.cli.test_help import COMMANDS

JOB = '''\
"""Show what was given."""
import click

@click.command()
@click.argument("archives", nargs=-1, type=click.Path())
@click.option("-o", "--out", default="nowhere", type=click.Path(), help="Where it goes.")
@click.option("--fail-on", type=click.Choice(["low", "high"]), help="When to fail.")
@click.option("--rules", "packs", multiple=True, type=click.Path(), help="Packs.")
@click.option("--size", type=click.IntRange(min=1), default=5, help="How large.")
@click.option("--text", "words", default="", help="Any text.")
@click.option("--strict", is_flag=True, help="Be strict.")
def command(**given: object) -> None:
    """Show what was given."""
    click.echo("|".join(f"{name}={value}" for name, value in sorted(given.items())))
'''
GROUP = '''\
"""Many commands."""
import click

@click.group()
def command() -> None:
    """Many commands."""

@command.command(name="list")
@click.option("--kind", help="Which.")
def list_(kind: str) -> None:
    click.echo(f"kind={kind}")
'''


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two commands; the test stands in another one, which is empty."""
    folder, here = tmp_path / "jobs", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    (folder / "show.py").write_text(JOB)
    (folder / "rules.py").write_text(GROUP)
    (folder / "config.py").write_text((jobs_folder() / "config.py").read_text())
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith(("KAFKA_FORENSICS", "XDG_"))]:
        monkeypatch.delenv(name)
    return folder


def call(jobs: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        make_group(jobs),
        arguments,
        prog_name="kafka-forensics",
        auto_envvar_prefix="KAFKA_FORENSICS",
    )


def given(jobs: Path, *arguments: str) -> dict[str, str]:
    done = call(jobs, "show", *arguments)
    assert 0 == done.exit_code, done.output
    return dict(one.split("=", 1) for one in done.output.strip().split("|"))


def test_each_place_goes_before_the_next(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nowhere" == given(jobs)["out"]
    Path("kafka-forensics.yaml").write_text("show:\n  out: file\n")
    assert "file" == given(jobs)["out"]
    monkeypatch.setenv("KAFKA_FORENSICS_SHOW_OUT", "environment")
    assert "environment" == given(jobs)["out"]
    assert "flag" == given(jobs, "--out", "flag")["out"]


def test_a_variable_has_the_name_of_the_flag(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one that the program calls it by."""
    monkeypatch.setenv("KAFKA_FORENSICS_SHOW_TEXT", "two words")
    monkeypatch.setenv("KAFKA_FORENSICS_SHOW_RULES", "a b:c")
    monkeypatch.setenv("KAFKA_FORENSICS_SHOW_ARCHIVES", "x:y")
    found = given(jobs)

    assert ("two words", "('a b', 'c')", "('x', 'y')") == (
        found["words"], found["packs"], found["archives"]
    )  # fmt: skip


def test_a_file_is_found_here_and_then_at_home(
    jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home/.config/kafka-forensics/config.yaml"
    home.parent.mkdir(parents=True)
    home.write_text("show: {size: 7}\n")
    assert "7" == given(jobs)["size"]

    elsewhere = tmp_path / "xdg/kafka-forensics/config.yaml"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("show: {size: 8}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert "8" == given(jobs)["size"]

    Path("kafka-forensics.yaml").write_text("show: {size: 9}\n")
    assert "9" == given(jobs)["size"]

    Path("named.yaml").write_text("show: {size: 10}\n")
    assert "10" == given(jobs, "--config", "named.yaml")["size"]
    monkeypatch.setenv("KAFKA_FORENSICS_CONFIG", "named.yaml")
    assert "10" == given(jobs)["size"]


def test_lists_paths_and_quotes(jobs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    file = folder / "all.yaml"
    file.write_text(
        "show:\n  rules: [our rules, ~/mine, /absolute]\n  archives: s3a://bucket/logs\n"
        "  out: out\n  text: 'a, b: $HOME'\n  strict: true\n"
    )
    found = given(jobs, "--config", str(file))

    home = tmp_path / "home/mine"
    assert f"('{folder}/our rules', '{home}', '/absolute')" == found["packs"]
    assert "('s3a://bucket/logs',)" == found["archives"]
    assert (f"{folder}/out", "a, b: $HOME", "True") == (
        found["out"], found["words"], found["strict"]
    )  # fmt: skip
    # What a file turns on, the command line turns off.
    assert "False" == given(jobs, "--config", str(file), "--no-strict")["strict"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("show:\n  fail_on: high\n", "2: show has no option 'fail_on'; did you mean 'fail-on'?"),
        ("shwo:\n  out: x\n", "1: there is no command 'shwo'; did you mean 'show'?"),
        ("rules:\n  lst: {kind: x}\n", "2: there is no command 'rules lst'; did you mean 'list'?"),
        ("show:\n  fail-on: hihg\n", "2: fail-on: 'hihg' is not one of 'low', 'high'."),
        ("show:\n  fail-on: hihg\n", "Did you mean 'high'?"),
        ("show:\n\n  size: many\n", "3: size: a number was expected, not 'many'"),
        ("show:\n  size: 0\n", "2: size: 0 is not in the range x>=1."),
        ("show:\n  size: true\n", "2: size: a number was expected, not True"),
        ("show:\n  strict: 3\n", "2: strict: true or false was expected, not 3"),
        ("show:\n  strict: maybe\n", "2: strict: 'maybe' is not a valid boolean"),
        ("show:\n  out: 2026\n", "2: out: text was expected, not 2026; put it in quotes"),
        ("show:\n  out: [a, b]\n", "2: out: text was expected"),
        ("show: high\n", "1: show is a command: its options stand indented below it"),
        ("show:\n  out: a\n  out: b\n", "3: not readable as YAML: found duplicate key 'out'"),
        ("show:\n  out: 'a\n", "not readable as YAML"),
        ("- a\n", "1: a mapping was expected"),
        ("rules:\n  list:\n    knid: x\n", "3: rules list has no option 'knid'"),
        ("config:\n  show: {}\n", "1: there is no command 'config'"),
    ],
)
def test_what_is_wrong_names_the_line(text: str, says: str, jobs: Path) -> None:
    """Whatever command is called: a file is right or wrong as a whole."""
    Path("kafka-forensics.yaml").write_text(text)
    for arguments in (["show"], ["rules", "list"], ["config", "show"]):
        done = call(jobs, *arguments)

        assert 2 == done.exit_code
        assert says in done.stderr
        assert "kafka-forensics.yaml:" in done.stderr


def test_all_that_is_wrong_is_told_at_once(jobs: Path) -> None:
    Path("kafka-forensics.yaml").write_text("show:\n  size: 0\n  otu: x\n")

    assert 2 == call(jobs, "show").stderr.count("kafka-forensics.yaml:")


def test_a_broken_file_stands_in_nobody_s_way_to_help(jobs: Path) -> None:
    Path("kafka-forensics.yaml").write_text("shwo: {}\n")

    assert 0 == call(jobs, "show", "-h").exit_code
    assert 0 == call(jobs, "config", "new", "other.yaml").exit_code


def test_a_file_that_others_may_write_is_only_taken_when_named(jobs: Path) -> None:
    """It may name packs, and packs hold code."""
    file = Path("kafka-forensics.yaml")
    file.write_text("show: {size: 7}\n")
    file.chmod(0o666)
    done = call(jobs, "show")

    assert (2, True) == (done.exit_code, "another user can write this file" in done.stderr)
    assert "7" == given(jobs, "--config", str(file))["size"]


def test_show_says_of_each_value_where_it_comes_from(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("kafka-forensics.yaml").write_text("show:\n  out: my out\n\n  strict: true\n")
    monkeypatch.setenv("KAFKA_FORENSICS_SHOW_FAIL_ON", "high")
    monkeypatch.setenv("KAFKA_FORENSICS_SHOW_SIZE", "none")
    done = call(jobs, "config", "show", "show", "a.log", "--text", "it's")

    # A value that the option does not take.
    assert 1 == done.exit_code
    rows = [line.split("  ") for line in done.output.splitlines() if line.startswith("  ")]
    found = {row[1]: [one.strip() for one in row[2:] if one.strip()] for row in rows}
    assert found == {
        "archives": ["a.log", "command line"],
        "out": ["'my out'", "kafka-forensics.yaml:2"],
        "fail-on": ["high", "environment KAFKA_FORENSICS_SHOW_FAIL_ON"],
        "rules": ["-", "default"],
        "size": [
            "none",
            "environment KAFKA_FORENSICS_SHOW_SIZE: 'none' is not a valid integer range.",
        ],
        "text": ["'it'\"'\"'s'", "command line"],
        "strict": ["yes", "kafka-forensics.yaml:4"],
    }


def test_show_as_json_and_of_everything(jobs: Path) -> None:
    Path("kafka-forensics.yaml").write_text("rules: {list: {kind: isr}}\n")
    told = json.loads(call(jobs, "config", "show", "--json").output)

    assert "kafka-forensics.yaml" == told["file"]
    assert ["rules list", "show"] == sorted(told["options"])
    assert told["options"]["rules list"] == [
        {"option": "kind", "value": "isr", "from": "kafka-forensics.yaml:1", "wrong": None}
    ]
    done = call(jobs, "config", "show", "shwo")
    assert (2, True) == (done.exit_code, "did you mean 'show'?" in done.stderr)


def test_new_never_touches_a_file(jobs: Path) -> None:
    Path("kafka-forensics.yaml").write_text("show: {size: 7}\n")
    done = call(jobs, "config", "new")

    assert (1, True) == (done.exit_code, "is there already" in done.stderr)
    assert "show: {size: 7}\n" == Path("kafka-forensics.yaml").read_text()


@pytest.mark.usefixtures("jobs")
def test_what_new_writes_is_what_the_commands_take() -> None:
    """Of the shipped commands: as written it sets nothing; with all # gone it sets the defaults."""
    text = call(jobs_folder(), "config", "new", "-").output
    file = Path("all.yaml")
    file.write_text(text)
    keys = {call: configurable_options(one) for call, one in COMMANDS.items()}
    keys = {
        call: one for call, one in keys.items() if call[0] not in ("config", "doctor", "completion")
    }
    assert {} == config_file.load_config(file, keys).settings

    lines = [line.replace("#", "", 1) if "# " not in line else line for line in text.splitlines()]
    file.write_text("\n".join(lines))
    config = config_file.load_config(file, keys)

    for call_, options in keys.items():
        for key, option in options.items():
            assert f"#{key}:" in text
            wanted = option.default
            found = config.settings.get(call_, {}).get(option.name)
            if wanted not in (None, ()) or option.is_multiple or option.is_flag:
                assert found is not None, (call_, key)
                assert (list(wanted or ()) if option.is_multiple else wanted) == _plain(
                    found.value, option
                )


def _plain(value: object, option: Option) -> object:
    """Take the folder of the file from a path again."""
    if option.is_path and isinstance(value, str):
        return value if value.startswith("/") else str(Path(value))
    return value


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.yaml:1: cannot be read"):
        config_file.load_config(tmp_path / "no.yaml", {})
    file = tmp_path / "bytes.yaml"
    file.write_bytes(b"show: \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        config_file.load_config(file, {})
