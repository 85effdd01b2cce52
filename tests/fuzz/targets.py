"""The targets of fuzzing: each makes a random input in a folder, reads it, and checks what holds.

A target draws everything from the Random that it is given, so that a seed gives the same input.
"""

from __future__ import annotations

import atexit
import functools
import gzip
import io
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from forensics.cli.config_file import load_config
from forensics.cli.option_sources import configurable_options
from forensics.errors import ForensicsError
from forensics.events.file_accounts import assign_nodes
from forensics.events.node_map import MappedNode, find_unused, parse_node_map
from forensics.events.packs import load_rule_set, open_packs
from forensics.events.rules import load_rules
from forensics.ingest.compression import Decompressed
from forensics.ingest.formats import sniff_format
from forensics.ingest.read_limits import DamageError
from forensics.lib.yaml_with_lines import FileText, rule_files, rules_folder
from forensics.parsing.layouts import load_layouts
from forensics.pipeline import finish_run
from forensics.quality.gx_runner import load_checked_expectations
from forensics.report.page import redraw_report
from forensics.sandbox import run_archives
from forensics.settings import Settings
from tests.cli.test_help import COMMANDS
from tests.fuzz import inputs
from tests.fuzz.invariants import (
    assert_adds_up,
    assert_not_lost_in_silence,
    assert_same,
)
from tests.ingest.sample_archives import tarred, write
from tests.ingest.scans import Scanned, scan
from tests.ingest.whole_runs import read
from tests.ingest.written_logs import PLAIN

Target = Callable[[Random, Path], None]


def any_split_gives_the_same(random: Random, folder: Path) -> None:
    """A file is read in pieces of any size as it is read in one."""
    text = b"".join(inputs.disturb(random, inputs.lines_of(random, "broker-1/server.log", 80)))
    if random.random() < 0.4:
        text = inputs.wrap(random, text.decode("utf-8", "replace").encode())
    path = write(folder, {"broker-1/server.log": text})

    whole = scan(path)
    # Each piece costs some milliseconds, and nobody reads thousands of two bytes.
    least = 1 + len(text) // 1000
    split = scan(path, split_size=random.randint(least, 2 * len(text) + least))

    assert_adds_up(whole)
    assert_adds_up(split)
    assert_same(whole, split)


def archives_are_as_their_files(random: Random, folder: Path) -> None:
    """An archive of archives gives the events of the files in it."""
    tree = inputs.random_tree(random)
    packed = inputs.pack(random, tree)

    plain = scan(write(folder / "plain", tree))
    found = scan(write(folder / "packed", {"logs": packed}) / "logs")

    assert_adds_up(found)
    assert_same(plain, found)


def damaged_archives_are_read_or_named(random: Random, folder: Path) -> None:
    """A damaged archive ends in no exception, and its lines add up."""
    broken = inputs.damage(random, inputs.pack(random, inputs.random_tree(random)))
    _read(write(folder, {"logs": broken}))


def damaged_streams_lose_nothing_in_silence(random: Random, folder: Path) -> None:
    """A compressed file that is damaged keeps its neighbours whole, and is named."""
    tree = dict(inputs.random_tree(random))
    name = random.choice(sorted(tree))
    # In one piece: nobody sees that the last of several pieces is gone.
    tree[name] = random.choice(inputs.STREAMS)(tree[name])
    plain = scan(write(folder / "plain", tree))
    tree[name] = random.choice((inputs.cut, inputs.flip))(random, tree[name])

    found = _read(write(folder / "damaged", tree))

    if found is not None and tree[name][:2] in {b"\x1f\x8b", b"BZ", b"\xfd7"}:
        assert_not_lost_in_silence(plain, found)


def wrappers_change_no_event(random: Random, folder: Path) -> None:
    """Lines in a wrapper give the events of the bare lines."""
    source = random.choice(("broker-1/server.log", "broker-2/server.log"))
    text = b"".join(inputs.lines_of(random, source))
    if not text.startswith(b"["):
        return
    plain = scan(write(folder / "plain", {source: text}))

    found = scan(write(folder / "wrapped", {source: inputs.wrap(random, text)}))

    assert_adds_up(found)
    assert_same(plain, found, placed=False)


def odd_lines_do_no_harm(random: Random, folder: Path) -> None:
    """Whatever lines stand in whatever order, they are read and add up; so does their archive."""
    tree = {}
    for source in random.sample(sorted(inputs.SOURCES), 2):
        lines = inputs.disturb(random, inputs.lines_of(random, source))
        tree[source] = b"".join(lines)
        if random.random() < 0.3:
            tree[source] = inputs.damage(random, tree[source])
    plain = _read(write(folder / "plain", tree))
    packed = _read(write(folder / "packed", {"logs": gzip.compress(tarred(tree), mtime=0)}))
    if plain is not None and packed is not None and not plain.problems and not packed.problems:
        assert_same(plain, packed)


def any_order_gives_the_same(random: Random, folder: Path) -> None:
    """Files and archives give the same in whatever order they are named."""
    tree = inputs.random_tree(random)
    paths = [write(folder / name[:1], {name: tree[name]}) for name in sorted(tree)]
    assert_same(scan(*paths), scan(*reversed(paths)))


def copies_count_once(random: Random, folder: Path) -> None:
    """Parts of a file under other names, in other forms, add no event."""
    source = random.choice(("broker-1/server.log", "broker-2/server.log"))
    lines = inputs.SOURCES[source][-300:]
    begin = next(at for at, line in enumerate(lines) if line.startswith(b"["))
    lines = lines[begin:]
    plain = {source: b"".join(lines)}
    expected = read(write(folder / "plain/logs", plain))
    copies = {}
    for at in range(random.randint(1, 3)):
        first = random.randrange(len(lines) - 1)
        part = b"".join(lines[first : random.randint(first + 1, len(lines))])
        change = random.choice((bytes, gzip.compress, lambda text: text.replace(b"\n", b"\r\n")))
        # A line that names nobody is of the broker whose folder it lies in.
        folders = ("old", source.partition("/")[0], "x/y")
        copies[f"{random.choice(folders)}/copy-{at}"] = change(part)

    found = read(write(folder / "copied/logs", plain | copies))

    assert expected.facts() == found.facts()


def saved_outputs_are_read_or_refused(random: Random, folder: Path) -> None:
    """A damaged output folder is drawn, or refused by a sentence."""
    out = folder / "out"
    shutil.copytree(_saved_run(), out)
    name = random.choice(sorted(path for path in out.rglob("*") if path.is_file()))
    name.write_bytes(inputs.damage(random, name.read_bytes()))
    says = _refusal(lambda: redraw_report(out))
    assert says is None or says.strip()


@functools.cache
def _saved_run() -> Path:
    """Make a run of the plain tree, once; it goes with this process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    logs, out = write(folder / "logs", PLAIN), folder / "out"
    run = run_archives([str(logs)], out)
    finish_run(run.files, run.past, load_rule_set(()), Settings((str(logs),), out), lambda _: None)
    return out


def streams_give_a_true_beginning(random: Random, folder: Path) -> None:
    """What a cut stream gives is the beginning of its text; a broken one says so."""
    del folder
    text = b"".join(inputs.lines_of(random, "broker-2/server.log"))
    packed = inputs.compress(random)(text)
    if random.random() < 0.5:
        assert text.startswith(_unpack(inputs.cut(random, packed)))
    else:
        _unpack(inputs.damage(random, packed))


def rule_files_are_read_or_refused(random: Random, folder: Path) -> None:
    """A rule with random faults is read, or refused by a sentence that names the file."""
    del folder
    page = random.choice(_RULES)
    data = _spoil_text(random, page.read_bytes())
    says = _refusal(lambda: load_rules([FileText(page.name, data)]))
    assert says is None or page.name in says, says


def layout_files_are_read_or_refused(random: Random, folder: Path) -> None:
    """The same for layouts."""
    del folder
    page = random.choice(_LAYOUTS)
    data = _spoil_text(random, page.read_bytes())
    says = _refusal(lambda: load_layouts([FileText(page.name, data)]))
    assert says is None or page.name in says, says


def documents_are_read_or_counted(random: Random, folder: Path) -> None:
    """What lies beside logs may be spoilt in any way: it adds up, and is never an exception."""
    tree = dict(inputs.random_tree(random, 1))
    for number in range(random.randint(1, 3)):
        text = random.choice(inputs.DOCUMENTS)
        data = _spoil_text(random, text) if random.random() < 0.8 else text
        tree[f"saved-{number}"] = random.choice(inputs.DAMAGES)(random, data)
    found = _read(write(folder, {"logs": tarred(tree)}))
    assert found is not None


def patterns_are_taken_or_refused(random: Random, folder: Path) -> None:
    """A conversion pattern of any words makes a layout, or is refused by a sentence."""
    pattern = "".join(random.choice(_PATTERN_WORDS) for _ in range(random.randint(1, 14)))
    if random.random() < 0.6:
        pattern = "[%d] %p " + pattern + " %m (%c)%n"
    source = write(folder, {"broker-1/server.log": b"".join(
        inputs.disturb(random, inputs.lines_of(random, "broker-1/server.log"))
    )})  # fmt: skip
    found: list[Scanned] = []
    says = _refusal(lambda: found.append(scan(source, patterns=[pattern])))
    assert says is None or "log pattern" in says, says
    for one in found:
        assert_adds_up(one)
        size = random.randint(1000, 9000)
        assert_same(one, scan(source, patterns=[pattern], split_size=size))


def maps_are_taken_or_refused(random: Random, folder: Path) -> None:
    """Whatever --map says, every line has a node or none, and nothing is lost."""
    words = [
        "".join(random.choice(_MAP_WORDS) for _ in range(random.randint(1, 5)))
        for _ in range(random.randint(1, 3))
    ]
    nodes: list[tuple[MappedNode, ...]] = []
    says = _refusal(lambda: nodes.append(parse_node_map(words)))
    assert says is None or says.startswith("--map"), says
    found = scan(write(folder, inputs.random_tree(random)))
    for one in nodes:
        assign_nodes(found.files, one)
        find_unused(((name, file.origins) for name, file in found.files.items()), one)
        assert_adds_up(found)


def documents_of_records_add_up(random: Random, folder: Path) -> None:
    """What stores and tools write is read the same in pieces of any size, spoilt or not."""
    name, text = inputs.document(random)
    if is_spoilt := random.random() < 0.7:
        text = random.choice((_spoil_text, inputs.damage))(random, text)
    path = write(folder, {f"broker-1/{name.replace('/', ' ')}": text})

    whole = _read(path)

    if whole is not None and not is_spoilt and len(text) < inputs.MOST_SPLIT:
        assert_same(whole, scan(path, split_size=random.randint(500, len(text) + 1000)))


def interleaved_nodes_lose_nothing(random: Random, folder: Path) -> None:
    """Lines of several nodes in one file give the facts of their own files."""
    sources = random.sample(("broker-1/server.log", "broker-2/server.log",
                             "controller-1/controller.log"), random.randint(2, 3))  # fmt: skip
    files = {source: inputs.lines_of(random, source, 90) for source in sources}
    plain = scan(write(folder / "plain", {name: b"".join(files[name]) for name in files}))
    form = random.choice(("{} | {}", "[{}] {}", "{} kafka {}"))
    mixed = [
        form.format(name.partition("/")[0], line.decode().rstrip("\n")) + "\n"
        for name, line in inputs.interleave(random, files)
    ]

    found = scan(write(folder / "mixed", {"all.log": "".join(mixed).encode()}))

    assert_adds_up(found)
    if all(len(lines) >= inputs.FEW for lines in files.values()):
        assert_not_lost_in_silence(plain, found)


def shared_undated_files_are_placed_or_said(random: Random, folder: Path) -> None:
    """Lines of several nodes in one file may have no date, or no time: nothing is doubled."""
    sources = random.sample(sorted(inputs.SOURCES), random.randint(2, 3))
    files = {source: inputs.lines_of(random, source, random.randint(5, 80)) for source in sources}
    cut = random.choice((_DATE, _DATE_AND_TIME))
    form = random.choice((b"%s | %s", b"[%s] %s", b"%s"))
    mixed = []
    for name, line in inputs.interleave(random, files):
        bare = cut.sub(b"", line) if random.random() < 0.95 else line
        node = name.partition("/")[0].encode()
        mixed.append(form % ((node, bare) if form.count(b"%s") > 1 else (bare,)))
    if random.random() < 0.3:
        mixed = inputs.disturb(random, mixed)
    name = random.choice(("all.log", "all-2026-11-18.log", "broker-1/server.log"))
    text = b"".join(mixed)
    tree = {name: text}
    if random.random() < 0.5:
        tree["broker-2/server.log"] = b"".join(inputs.lines_of(random, "broker-2/server.log", 60))

    path = write(folder / "logs", tree)
    found = read(path)

    lines = sum(one.count(b"\n") + (one[-1:] not in (b"\n", b"")) for one in tree.values())
    assert sum(one["lines"] for one in found.files) == lines
    assert_same(scan(path), scan(path, split_size=random.randint(500, 2 * len(text) + 500)))


def times_are_read_or_left_out(random: Random, folder: Path) -> None:
    """Whatever stands where a time is looked for, no event is of an impossible one."""
    form = inputs.time_form(random)
    written = inputs.in_time_form(random, form)
    path = write(folder / "logs", {"broker-1/server.log": written})
    found = read(path)
    times = [row["ts"] for row in found.rows if row["ts"] is not None]
    assert all(1969 <= time.year < 2201 for time in times), (form, times[:3])
    split = scan(path, split_size=random.randint(500, len(written) + 500))
    assert_same(scan(path), split)


def names_do_no_harm(random: Random, folder: Path) -> None:
    """Whatever entries are called, all is read, and nothing is written elsewhere."""
    tree = {inputs.name(random): b"".join(inputs.lines_of(random, source))
            for source in random.sample(sorted(inputs.SOURCES), random.randint(1, 4))}  # fmt: skip
    packed = inputs.pack_hostile(random, tree)
    (folder / "logs").write_bytes(packed)

    found = read(folder / "logs")

    assert sorted(path.name for path in folder.iterdir()) == ["logs", "out"]
    assert len(found.files) >= 1
    assert all(one["file"].encode() for one in found.files)


def saved_tables_are_read_or_refused(random: Random, folder: Path) -> None:
    """The same for the tables alone, of which the page is drawn."""
    out = folder / "out"
    shutil.copytree(_saved_run(), out)
    for name in random.sample(sorted(out.rglob("*.parquet")), random.randint(1, 3)):
        data = name.read_bytes()
        # The footer says what the rest is.
        at = random.choice((0, max(0, len(data) - 2000)))
        name.write_bytes(data[:at] + random.choice(inputs.DAMAGES)(random, data[at:]))
    says = _refusal(lambda: redraw_report(out))
    assert says is None or says.strip()


def configuration_is_taken_or_refused(random: Random, folder: Path) -> None:
    """A configuration file with random faults is taken, or refused by its name."""
    path = folder / "kafka-forensics.yaml"
    path.write_bytes(_spoil_text(random, _CONFIGURATION))
    says = _refusal(lambda: load_config(path, _OPTIONS))
    assert says is None or path.name in says, says


def packs_are_taken_or_refused(random: Random, folder: Path) -> None:
    """A pack with random faults in any of its files is taken, or refused by their names."""
    pages = {
        "pack.yaml": b"name: mine\nversion: 1.0.0\n",
        "limits.yaml": _LIMITS.read_bytes(),
        f"events/{(rule := random.choice(_RULES)).name}": rule.read_bytes(),
        f"layouts/{(layout := random.choice(_LAYOUTS)).name}": layout.read_bytes(),
    }
    for name in random.sample(sorted(pages), random.randint(1, len(pages))):
        pages[name] = _spoil_text(random, pages[name])
    pack = write(folder / "pack", pages)

    def load() -> None:
        rules = load_rule_set(open_packs([pack]))
        load_checked_expectations(rules.overlays)

    says = _refusal(load)
    assert says is None or says.strip()


_CONFIGURATION = b"""\
postmortem:
  fail-on: high
  rules:
    - packs/mine
  map: ["host-7/*=broker-3", "kafka-0=broker-1"]
  split-size: 1048576
  strict: true
audit:
  store: /var/lib/audits
"""
_OPTIONS = {call: configurable_options(one) for call, one in COMMANDS.items()}
_LIMITS = rules_folder() / "limits.yaml"


_PATTERN_WORDS = (
    "%d", "%p", "%m", "%c", "%n", "%t", "%X{a}", "%-5p", "%.30c{1}", "%L", "%%", "%", "{", "}", "(",
    ")", "%d{HH:mm}", "%d{", "%d{yyyy'T'MM}", "%highlight{%p}", "%notEmpty{[%t]}", "%clr(%5p)", "$",
    "${a:-%m}", "${", "\\", "\\n", "\n", "[", "]", " ", " | ", "*", "+", "?", "^", "(?P<x>", "é",
    "\x00", "%F",
    "%replace{%m}{a}{b}", "%equals{%t}{a}{b}", "%99999999c", "x" * 300, "%d{UNIX_MILLIS}", "%l",
)  # fmt: skip
_MAP_WORDS = (
    "*", "?", "[", "]", "[!", "=", "broker-", "broker-3", "controller-1", "broker-1/*", "-", "²",
    "99999999999999999999", "/", "!", "\n", "\x00", "server.log", "é", "**/", "app", " ",
)  # fmt: skip
_RULES = sorted(rule_files("events"))
_LAYOUTS = sorted(rule_files("layouts"))
# The date of a record, and all of its time.
_DATE, _DATE_AND_TIME = re.compile(rb"(?<=^\[)[0-9-]{10} "), re.compile(rb"^\[[0-9:, -]{23}\] ")
_WORDS = (
    "{", "}", "[", "]", ":", "- ", "&a ", "*a", "!!python/object:os.system", "\t", "\x00", "|", ">",
    "{x:int}", "{:tp}", "{x:nothing}", "null", "1e999", "-", "'", '"', "%", "\\", "(?P<x>",
    "99999999999999999999",
)  # fmt: skip


def _spoil_text(random: Random, data: bytes) -> bytes:
    """Spoil a text by its lines, its words or its bytes."""
    for _ in range(random.randint(1, 4)):
        lines = data.split(b"\n")
        at = random.randrange(len(lines))
        match random.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[random.randrange(len(lines))])
            case 2:
                middle = random.randrange(len(lines[at]) + 1)
                word = random.choice(_WORDS).encode()
                lines[at] = lines[at][:middle] + word + lines[at][middle:]
            case 3:
                lines[at] = b" " * random.randint(0, 6) + lines[at].strip()
            case _:
                lines = [random.choice(inputs.DAMAGES)(random, data)]
        data = b"\n".join(lines)
    return data


def _unpack(packed: bytes) -> bytes:
    """Unpack as far as it goes."""
    kind = sniff_format(packed[:512])
    if kind not in {"gzip", "bzip2", "xz"}:
        return b""
    stream, parts = Decompressed(io.BytesIO(packed), kind), []
    with suppress(DamageError):
        while part := stream.read(10_000):
            parts.append(part)
    return b"".join(parts)


def _read(path: Path) -> Scanned | None:
    """Read what may be refused as a whole, by a sentence."""
    found: list[Scanned] = []
    says = _refusal(lambda: found.append(scan(path)))
    assert says is None or says.strip()
    for one in found:
        assert_adds_up(one)
    return found[0] if found else None


def _refusal(call: Callable[[], object]) -> str | None:
    """Return the sentence by which a call refuses its input; None if it takes it."""
    try:
        call()
    except ForensicsError as error:
        return str(error)
    return None


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        any_split_gives_the_same,
        archives_are_as_their_files,
        damaged_archives_are_read_or_named,
        damaged_streams_lose_nothing_in_silence,
        wrappers_change_no_event,
        odd_lines_do_no_harm,
        any_order_gives_the_same,
        copies_count_once,
        saved_outputs_are_read_or_refused,
        streams_give_a_true_beginning,
        rule_files_are_read_or_refused,
        layout_files_are_read_or_refused,
        documents_are_read_or_counted,
        patterns_are_taken_or_refused,
        maps_are_taken_or_refused,
        documents_of_records_add_up,
        interleaved_nodes_lose_nothing,
        shared_undated_files_are_placed_or_said,
        times_are_read_or_left_out,
        names_do_no_harm,
        saved_tables_are_read_or_refused,
        configuration_is_taken_or_refused,
        packs_are_taken_or_refused,
    )
}
