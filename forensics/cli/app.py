"""The command `kafka-forensics`: each file of jobs/ is one of its commands.

A file is loaded when its command is called. `--help` only reads the first line of each docstring,
so it starts neither Spark nor Java, and a broken file cannot take the others with it.
"""

from __future__ import annotations

import ast
import atexit
import errno
import importlib.util
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import click

from forensics import __version__
from forensics.cli.config_file import CommandPath
from forensics.cli.option_sources import (
    ENV_PREFIX,
    UNCONFIGURED,
    bind_sources,
    iter_commands,
    refuse_unnamed_programs,
)
from forensics.errors import DISK_ERRORS, ForensicsError
from forensics.lib.package_data import data_folder
from forensics.lib.storage import is_remote
from forensics.lib.text_safety import printable, printable_lines
from forensics.lib.this_machine import (
    collect_garbage_seldom,
    end_at_once,
    is_memory_used_up,
    map_little,
    mappable_bytes,
    memory_is_short,
    return_memory,
    stand_by_child,
)
from forensics.settings import ENGINES

PROGRAM_NAME = "kafka-forensics"
INTERRUPTED = 130
# What Python says of a library that cannot be mapped, and of a thread that cannot be started.
_NO_ROOM = re.compile("start new thread|failed to map segment|annot allocate memory")
VERDICT_COLOURS = {"INCIDENT": "red", "CLEAR": "green", "CANNOT TELL": "yellow"}

MASTER_OPTION = click.option(
    "--master", help="Spark master; default: local[*], or what spark-submit says."
)
ENGINE_OPTION = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="spark",
    show_default=True,
    help="What does the work: Spark, or this process alone, which needs no Java and starts sooner,"
    " for a small archive.",
)
STRICT_OPTION = click.option(
    "--strict", is_flag=True, help="End with 4 if something could not be read."
)
# The options of every command that reads logs.
CLUSTER_OPTION = click.option(
    "--cluster", metavar="ID",
    help="Of logs of several clusters look at those of this one alone; 'any' reads all as one.",
)  # fmt: skip
MAP_OPTION = click.option(
    "--map",
    "node_map",
    multiple=True,
    metavar="PATTERN=NODE",
    help="Who wrote the files whose names fit a pattern, such as 'host-7/*=broker-3', or the lines"
    " of such a pod or container; goes before what they say themselves. May be repeated.",
)
PATTERN_OPTION = click.option(
    "--log-pattern",
    "log_patterns",
    multiple=True,
    metavar="PATTERN",
    help="How lines are written: a conversion pattern of log4j, Log4j 2 or Logback, such as"
    " '[%d] %p %m (%c)%n'. May be repeated.",
)
LIMIT_OPTION = click.option(
    "--limit",
    "limit_words",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a limit of what is read, such as entries=500000; see docs/running/limits.md.",
)


class _Place(click.Path):
    """A folder to write into, or its address in a store, which stays a text."""

    def __init__(self, *, exists: bool = False) -> None:
        super().__init__(exists=exists, file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a folder, or the address."""
        return value if is_remote(str(value)) else super().convert(value, param, ctx)


class _SavedRun(click.Path):
    """The folder of a saved run or of a store; of an address a copy is made."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the folder, or of the copy."""
        if not is_remote(str(value)):
            return super().convert(value, param, ctx)
        if ctx and ctx.resilient_parsing:
            # Nobody who presses Tab waits for a store.
            return Path()
        from forensics.run_output.remote_folder import fetch  # noqa: PLC0415

        return fetch(str(value))


OUTPUT, OUTPUT_THERE, SAVED_RUN = _Place(), _Place(exists=True), _SavedRun()
COMMAND_OPTION = click.option(
    "--command",
    "commands",
    metavar="COMMAND",
    multiple=True,
    help="Run this command and read its output, as in 'ssh broker-1 cat server.log'.",
)
RULES_OPTION = click.option(
    "--rules",
    "packs",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, path_type=Path),
    callback=refuse_unnamed_programs,
    help="A pack of rules of your own, laid over the shipped ones by id; may be repeated.",
)
QUIET_OPTION = click.option(
    "-q", "--quiet", is_flag=True, help="Say nothing but warnings and errors."
)
VERBOSE_OPTION = click.option(
    "-v", "--verbose", is_flag=True, help="Say also what each stage does, and all figures."
)
# The option of the commands that hold a store.
WAIT_OPTION = click.option(
    "--wait",
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Wait so long for another run that holds the store; then end with 5.",
)
JSON_OPTION = click.option(
    "--json", "as_json", is_flag=True, help="Write JSON instead of sentences."
)


def main(arguments: Sequence[str] | None = None, jobs: Path | None = None) -> None:
    """Run a command line, and end the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_limited = mappable_bytes() is not None
    if is_limited:
        stand_by_child()
        map_little()
    else:
        return_memory()
    # Half a second of a run would go into looking for it among the modules that it loads.
    collect_garbage_seldom()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)
        # Everything is written by then, and Python takes a moment to end.
        atexit.register(_ignore_interrupts)
    survive_closed_pipes()
    print_any_character()
    top = make_group(jobs or jobs_folder())
    try:
        top.main(given, prog_name=PROGRAM_NAME, auto_envvar_prefix=ENV_PREFIX, obj=tuple(given))
    except SystemExit as end:
        if is_limited and isinstance(end.code, int) and end.code:
            # Whether memory is over cannot be asked any more where it is.
            end_at_once(end.code)
        raise


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does: whoever stops a run that way wants nothing left behind either."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    # A shell lets what it starts in the background ignore Ctrl-C, but not this.
    handle = on_interrupt if callable(on_interrupt) else signal.default_int_handler
    handle(signal.SIGINT, frame)


def _ignore_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def command_words() -> tuple[str, ...]:
    """Return the command line of the running command."""
    context = click.get_current_context(silent=True)
    return tuple(context.find_root().obj or ()) if context else ()


def refuse_master_of_local(engine: str, master: str | None) -> None:
    """Refuse a Spark master where Spark does not run."""
    if engine == "local" and master:
        raise click.UsageError("--master is Spark's; leave it, or --engine local.")


def run_file(file: str) -> None:
    """Run one file of jobs/ by itself: `spark-submit jobs/postmortem.py ARCHIVE...`.

    The file's last lines are `if __name__ == "__main__": run(__file__)`.
    """
    path = Path(file)
    main([_command_name(path), *sys.argv[1:]], jobs=path.parent)


def print_any_character() -> None:
    """Let the output escape what its encoding does not have: a log or a name may hold any text."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _OutputPipe(io.FileIO):
    """Standard output or standard error; what nobody reads any more is dropped.

    `2>&1 | head` must not end a run that has an output folder to write.
    """

    is_read = True

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) if self.is_read else len(data)
        except BrokenPipeError:
            self.is_read = False
            return len(data)


def survive_closed_pipes() -> None:
    """Let this process go on when the reader of its output ends."""
    for name in ("stdout", "stderr"):
        old = getattr(sys, name)
        # Streams that a test has put there are its own.
        if old is getattr(sys, f"__{name}__") and isinstance(old, io.TextIOWrapper):
            old.flush()
            pipe = io.BufferedWriter(_OutputPipe(old.fileno(), "w", closefd=False))
            by_line = old.line_buffering or name == "stderr"
            new = io.TextIOWrapper(pipe, old.encoding, old.errors, line_buffering=by_line)
            setattr(sys, name, new)


def is_output_read() -> bool:
    """Return False when whoever read standard output has ended: long texts need not go on."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return not isinstance(raw, _OutputPipe) or raw.is_read


def tell(text: str, *, err: bool = False) -> None:
    """Write lines in which names may stand: no terminal obeys what is in them."""
    click.echo(printable_lines(text), err=err)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Write labels and texts as two columns; a verdict is the label in capitals, and coloured."""
    shown = list(rows)
    width = max((len(label) for label, _ in shown), default=0)
    for label, text in shown:
        first, *rest = printable_lines(text).splitlines() or [""]
        head = label.ljust(width)
        if label in VERDICT_COLOURS:
            head = style_output(head, fg=VERDICT_COLOURS[label], bold=True)
            first = style_output(first, bold=True)
        # Without `color` Click takes colours out of what goes into a pipe.
        click.echo(f"{head}  {first}".rstrip(), color=shows_colours())
        for line in rest:
            click.echo(f"{'':{width}}  {line}")


def shows_colours() -> bool:
    """Return True on a terminal, or where FORCE_COLOR asks for it; NO_COLOR goes before both."""
    if os.environ.get("NO_COLOR"):
        return False
    if (forced := os.environ.get("FORCE_COLOR")) is not None:
        return forced not in {"", "0"}
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def style_output(text: str, **style: Any) -> str:
    """Colour a text where colours are shown."""
    return click.style(text, **style) if shows_colours() else text


def write_new_file(path: Path, text: str, advice: str) -> None:
    """Write a file that must not be there already; `advice` says what to do where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise ForensicsError(f"{path} is there already; {advice}.") from None


def make_group(jobs: Path) -> click.Group:
    """Return the group whose commands are the files of one folder."""
    return click.version_option(__version__, prog_name=PROGRAM_NAME)(_CommandGroup(jobs))


def jobs_folder() -> Path:
    """Return the folder of the commands."""
    return data_folder("jobs")


class _CommandGroup(click.Group):
    """A group that knows its commands by name, and loads the one that is called."""

    def __init__(self, folder: Path) -> None:
        paths = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
        self.files = {_command_name(path): path for path in paths}
        self._loaded: dict[str, click.Command] = {}
        # Placeholders: enough for click's list of commands and its "Did you mean".
        listed = {
            name: click.Command(name, short_help=_first_line(path))
            for name, path in self.files.items()
        }
        super().__init__(
            name=PROGRAM_NAME,
            commands=listed,
            help="Read archives of Apache Kafka logs and say what happened.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and self.load_named(str(name)), rest

    def load_named(self, name: str) -> click.Command:
        """Load a command once, and bind it to the environment and the configuration file."""
        if name not in self._loaded:
            command = load_command(self.files[name])
            bind_sources(command, (name,))
            self._loaded[name] = command
        return self._loaded[name]

    def configurable_commands(self) -> dict[CommandPath, click.Command]:
        """Load all commands that can be configured, but for broken files."""
        found: dict[CommandPath, click.Command] = {}
        for name in self.files:
            with suppress(Exception):
                found |= iter_commands(self.load_named(name), (name,))
        return {call: one for call, one in found.items() if call[0] not in UNCONFIGURED}

    def invoke(self, ctx: click.Context) -> object:
        with _translate_errors():
            return super().invoke(ctx)


def _say_os_error(error: OSError) -> str:
    if error.filename is None:
        return os.strerror(error.errno) if error.errno else str(error)
    # A store has reasons of its own, such as an access that it denies.
    return f"{os.fsdecode(error.filename)}: {error.strerror or error}"


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn errors that the user can put right into one sentence, and Ctrl-C into code 130."""
    try:
        yield
    except ForensicsError as error:
        # A message may quote names as they are in an archive, but each line of it stays one.
        raise click.ClickException(printable_lines(str(error))) from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise click.ClickException(memory_is_short()) from error
        # An error with a file name is the user's, and so is a full disk; any other is a bug, and
        # keeps its traceback.
        if error.filename is None and error.errno not in DISK_ERRORS:
            raise
        raise click.ClickException(printable(_say_os_error(error))) from error
    except MemoryError as error:
        raise click.ClickException(memory_is_short()) from error
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        # Libraries say in many ways that they found no room.
        if not is_memory_used_up() and not _NO_ROOM.search(str(error)):
            raise
        first = str(error).partition("\n")[0]
        raise click.ClickException(printable(f"{first}: {memory_is_short()}")) from error
    except KeyboardInterrupt as stop:
        click.echo("interrupted", err=True)
        # Where Ctrl-C came while a library ran a text as Python, as dataclasses do, Python ends by
        # the signal whatever the exit code is, unless it runs another such text to its end.
        exec("pass")  # noqa: S102
        raise click.exceptions.Exit(INTERRUPTED) from stop


def load_command(path: Path) -> click.Command:
    """Load the command of one file of jobs/."""
    name = f"kafka_forensics_jobs.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ForensicsError(f"{path} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    command = getattr(module, "command", None)
    if not isinstance(command, click.Command):
        raise ForensicsError(f"{path} must define a click command with the name `command`.")
    return command


@cache
def _first_line(path: Path) -> str:
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except SyntaxError:
        return "(this file has a syntax error)"
    return (text or "").partition("\n")[0]


def _command_name(path: Path) -> str:
    return path.stem.replace("_", "-")
