"""Writes archives of any size that are a possible past: a recorded incident, over and over.

Each repetition happens some minutes after the one before, to topics of its own. Between its lines
stand routine lines by the loggers that matter too: segments that roll and are deleted, snapshots of
producers, groups. The same arguments give the same bytes.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path

from forensics.events.log_reader import LogReader
from forensics.events.packs import load_rule_set
from forensics.events.rules import Rule

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "sample_logs/430-unclean/logs"
# Ends with the lines of the JVM, which hold no topic and of which there may be any number.
_LEFT_OUT = "gc.log"
_BEGAN, _LASTS = datetime.fromisoformat("2026-11-18 11:37:40"), timedelta(minutes=2, seconds=40)
# From the beginning of one repetition to that of the next.
PERIOD = timedelta(minutes=5)
_TIME = re.compile(rb"2026-11-18([ T])([0-9]{2}:[0-9]{2}:[0-9]{2})")
_TOPIC_ID = re.compile(rb"(?:topic id|topic ID|topicId=|topic_id:) ?([\w-]{22})\b")
_HEAD = re.compile(rb"^\[?2026-11-18", re.MULTILINE)
SMALL_FILE = 100_000
FORMS = ("plain", "gzip", "json")

# What brokers write all day, and no rule that a scan asks for takes.
_LOGS = "org.apache.kafka.storage.internals.log"
_GROUP = "[GroupCoordinator id=2 topic=__consumer_offsets partition=2] "
_GROUPS = "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
_SEGMENT = "LogSegment(baseOffset={n}, size={m}, lastModifiedTime=17{m})"
_DAILY = f"""
[LocalLog partition={{tp}}, dir=/data/b1] Deleting segment files {_SEGMENT} (kafka.log.LocalLog$)
[UnifiedLog partition={{tp}}, dir=/data/b1] Deleting segments due to log start offset {{n}}: \
{_SEGMENT} ({_LOGS}.UnifiedLog)
[UnifiedLog partition={{tp}}, dir=/data/b1] Loading producer state till offset {{n}} \
({_LOGS}.UnifiedLog)
[ProducerStateManager partition={{tp}}] Wrote producer snapshot at offset {{n}} with {{m}} \
producer ids in 3 ms. ({_LOGS}.ProducerStateManager)
Deleted log /data/b1/{{tp}}/{{n:020d}}.log.deleted. ({_LOGS}.LogSegment)
{_GROUP}[GroupId report-{{m}}] Member consumer-report-{{n}} updated its subscribed topics to: \
[{{tp}}]. {_GROUPS}
{_GROUP}Group report-{{m}} generation {{n}} has a new session timeout. {_GROUPS}
""".strip().splitlines()
_DAILY_SHARE = 0.7
_NUMBER = re.compile(r"[0-9]{4,}")
_STAMP = len("[2026-11-18 11:38:00,000]")


@dataclass(frozen=True)
class Past:
    """The files of one repetition, of which so many of a hundred lines state something."""

    files: dict[str, bytes]
    events: int
    # how many events come from each wording, as rule@version
    wordings: Counter[str]
    topics: tuple[bytes, ...]

    @property
    def bytes(self) -> int:
        """How long one repetition is."""
        return sum(map(len, self.files.values()))


@cache
def build_past(share: float, seed: int = 1) -> Past:
    """Read the recorded incident, and dilute it until `share` of the lines state something."""
    found = load_rule_set()
    reader = LogReader(found.layouts, found.active_rules())
    paths = sorted(path for path in SOURCE.rglob("*.log") if not path.name.endswith(_LEFT_OUT))
    files = {str(path.relative_to(SOURCE)): path.read_bytes() for path in paths}
    lines, stating, wordings, topics = 0, 0, Counter[str](), Counter[str]()
    for text in files.values():
        cut = reader.split_records(text.decode("utf-8").splitlines())
        if cut is not None:
            events = reader.read_events(cut)
            lines += text.count(b"\n")
            stating += len(events["offset"].unique())
            wordings.update(events["rule"].to_pylist())
            topics.update(name for name in events["topic"].to_pylist() if name)
    # Its log is the cluster's own.
    del topics["__cluster_metadata"]
    names = tuple(sorted((name.encode() for name in topics), key=lambda name: (-len(name), name)))
    brokers = [name for name in files if name.endswith("server.log") and "broker" in name]
    known = _find_unstated(reader, found.rules)
    lacking = max(0, round(stating / share) - lines)
    drawn = random.Random(seed)
    for name in brokers:
        routine = _draw_routine(lacking // len(brokers), drawn, names, known)
        files[name] = b"".join(_merge_by_time(_split_records(files[name]), routine))
    return Past(files, stating, wordings, names)


def _draw_routine(
    count: int, drawn: random.Random, topics: tuple[bytes, ...], known: list[str]
) -> list[bytes]:
    length = _LASTS / timedelta(milliseconds=1)
    moments = sorted(int(drawn.random() * length) for _ in range(count))
    texts = [name.decode() for name in topics]
    lines = []
    for moment in moments:
        number = drawn.randrange(10_000_000)
        if drawn.random() < _DAILY_SHARE:
            partition = f"{drawn.choice(texts)}-{number % 12}"
            text = drawn.choice(_DAILY).format(tp=partition, n=number, m=drawn.randrange(100_000))
            text = f" INFO {text}"
        else:
            text = _NUMBER.sub(str(number), drawn.choice(known)[_STAMP:])
        time = (_BEGAN + timedelta(milliseconds=moment)).isoformat(" ", "milliseconds")
        lines.append(f"[{time.replace('.', ',')}]{text}\n".encode())
    return lines


def _find_unstated(reader: LogReader, rules: Iterable[Rule]) -> list[str]:
    """Find the examples of routine rules by loggers that are heard, of which a scan tells nothing.

    Some of them meet the cheap pattern of another rule.
    """
    examples = {
        example.line.partition("\n")[0]
        for rule in rules
        if rule.is_routine or rule.context
        for wording in rule.wordings
        for example in wording.examples
    }
    lines = sorted(line for line in examples if re.match(r"\[[^]]{23}\] INFO ", line))
    records = reader.split_records(lines)
    assert records is not None
    heard = {row - 1 for row in reader.extract(records)["line"].to_pylist()}
    stating = {row - 1 for row in reader.read_events(records)["line"].to_pylist()}
    return [lines[row] for row in sorted(heard - stating)]


def _split_records(text: bytes) -> list[bytes]:
    begins = [found.start() for found in _HEAD.finditer(text)]
    return [text[a:b] for a, b in zip(begins, [*begins[1:], len(text)], strict=True)]


def _merge_by_time(records: list[bytes], routine: list[bytes]) -> Iterator[bytes]:
    """Put routine lines where their times are; records keep their order, whatever theirs are."""
    at = 0
    for record in records:
        while at < len(routine) and routine[at][:24] < record[:24]:
            yield routine[at]
            at += 1
        yield record
    yield from routine[at:]


def write_past(folder: Path, size: int, share: float = 0.05, form: str = "plain", *,
               small: bool = False) -> Path:  # fmt: skip
    """Write an archive of about `size` bytes of text into a folder that is made."""
    past = build_past(share)
    # A repetition is as long as its dilution asks; the last one stops in the middle.
    count = -(-size // past.bytes)
    last = size / past.bytes - (count - 1)
    for name, text in past.files.items():
        repeat = partial(_repeat, text, past.topics, count, last)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if small:
            for number, part in enumerate(_cut(repeat())):
                _write(path.with_name(f"{path.name}.{number + 1}"), iter([part]), form)
        else:
            _write(path, repeat(), form)
    return folder


def _repeat(text: bytes, topics: tuple[bytes, ...], count: int, last: float) -> Iterator[bytes]:
    named = re.compile(rb"(?<![\w.])(" + b"|".join(map(re.escape, topics)) + rb")(?![A-Za-z_])")
    ids = sorted(set(_TOPIC_ID.findall(text)))
    known = re.compile(b"|".join(map(re.escape, ids))) if ids else None
    for number in range(count):
        if number == count - 1:
            end = text.rfind(b"\n", 0, int(len(text) * last)) + 1
            text = text[:end]
        moved = _TIME.sub(_shift(number), text)
        if number:
            moved = named.sub(b"r%d.\\1" % number, moved)
        if number and known:
            moved = known.sub(partial(_replace_begin, b"%05d" % number), moved)
        yield moved


def _replace_begin(begin: bytes, found: re.Match[bytes]) -> bytes:
    return begin + found[0][len(begin) :]


def _shift(number: int) -> Callable[[re.Match[bytes]], bytes]:
    known: dict[bytes, bytes] = {}

    def shifted(found: re.Match[bytes]) -> bytes:
        text = known.get(found[0])
        if text is None:
            moment = datetime.fromisoformat(found[0].decode()) + number * PERIOD
            text = known[found[0]] = moment.isoformat(found[1].decode()).encode()
        return text

    return shifted


def _cut(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Cut texts where lines end, after about as many bytes as a small file has."""
    for text in texts:
        begin = 0
        while begin < len(text):
            end = text.find(b"\n", begin + SMALL_FILE) + 1 or len(text)
            yield text[begin:end]
            begin = end


def _write(path: Path, texts: Iterator[bytes], form: str) -> None:
    if form == "gzip":
        with gzip.open(path.with_name(path.name + ".gz"), "wb", compresslevel=6) as packed:
            packed.writelines(texts)
        return
    with path.open("wb") as file:
        for text in texts:
            file.write(_wrap_lines(text) if form == "json" else text)


def _wrap_lines(text: bytes) -> bytes:
    """Wrap lines as Docker does."""
    lines = text.decode("utf-8", "replace").splitlines(keepends=True)
    wrapped = [{"log": line, "stream": "stdout"} for line in lines]
    return "".join(json.dumps(one) + "\n" for one in wrapped).encode()
