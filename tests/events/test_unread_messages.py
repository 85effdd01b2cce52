"""Lines that say what rules look for and become no event are counted, however they are written."""

from __future__ import annotations

import html
import json
import random
import re
from collections import Counter
from collections.abc import Callable

import pytest

from forensics.events import unread_messages
from forensics.events.scan import load_scanner
from forensics.events.unread_messages import KnownMessages
from tests.ingest.scans import scan
from tests.ingest.test_layout_inference import PLAIN, bare, facts, read
from tests.recorded_runs import logs_of

SAYS = "read as no event although they say what rules look for"
# Before a dump of settings that is cut off.
WHOLE = PLAIN.splitlines()[:170]
SHRINKS = "[Partition orders-{} broker=1] Shrinking ISR from 1,2 to 1. Leader: (x)"


def note(text: str, name: str = "server.log") -> str:
    (file,) = read(text, name=name).files.values()
    return str(file.to_row()["damaged"] or "")


@pytest.mark.parametrize("name", ["282-flapping", "282-stalls", "332-cut-network", "430-unclean"])
def test_of_plain_logs_nothing_is_said(name: str) -> None:
    found = scan(logs_of(name))

    assert found.events
    said = [str(one.to_row()["damaged"]) for one in found.files.values()]
    assert [one for one in said if SAYS in one] == []


def broken(width: int) -> Callable[[random.Random, list[str]], list[str]]:
    return lambda _, lines: [
        line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)
    ]


def some(rng: random.Random, signs: str, most: int) -> str:
    return "".join(rng.choice(signs) for _ in range(rng.randint(1, most)))


def prefixed(rng: random.Random, lines: list[str]) -> list[str]:
    front = some(rng, "abz#>|~*:- []019", 12)
    return [front + line for line in lines]


def ended(rng: random.Random, lines: list[str]) -> list[str]:
    end = some(rng, "abz#>|~*;<- /019", 6)
    return [line + end for line in lines]


def escaped(rng: random.Random, lines: list[str]) -> list[str]:
    sign = rng.choice("[]:,=")
    return [line.replace(sign, "\\" + sign) for line in lines]


def half(rng: random.Random, lines: list[str]) -> list[str]:
    front = rng.choice(["@@ ", "<x> "])
    return [front + line if at > len(lines) // 2 else line for at, line in enumerate(lines)]


def every_other(rng: random.Random, lines: list[str]) -> list[str]:
    front = rng.choice(["A ", "<1>", ">>>"])
    return [front + line if at % 2 else line for at, line in enumerate(lines)]


def referenced(_: random.Random, lines: list[str]) -> list[str]:
    return [html.escape(line).replace("[", "&#91;").replace("=", "&#61;") for line in lines]


def with_thread(_: random.Random, lines: list[str]) -> list[str]:
    return [line + " (main)" if line.endswith(")") else line for line in lines]


DRESSES = (
    broken(80), broken(120), broken(200), prefixed, ended, escaped, half, every_other,
    referenced, with_thread,
)  # fmt: skip


@pytest.mark.parametrize(
    "seed",
    [*range(16), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(16, 300))],
)
def test_no_dress_loses_events_in_silence(seed: int) -> None:
    rng = random.Random(seed)
    lines = PLAIN.splitlines()
    for dress in rng.sample(DRESSES, rng.randint(1, 2)):
        lines = dress(rng, lines)
    found = read("\n".join(lines) + "\n")
    (file,) = found.files.values()
    plain, got = (Counter(map(str, one)) for one in (bare(), facts(found)))

    share = (plain & got).total() / plain.total()
    assert share >= 0.995 or SAYS in str(file.to_row()["damaged"])


def test_what_stands_in_another_field_than_the_message_is_seen() -> None:
    text = "".join(
        json.dumps(
            {
                "time": f"2026-11-18T11:38:{at:02}Z", "level": "INFO", "logger": "beat",
                "message": "alive", "last": f"WARN {SHRINKS.format(at)}",
            }
        )
        + "\n"
        for at in range(40)
    )  # fmt: skip

    assert "40 line(s) were" in note(text)
    assert "(most often isr." in note(text)
    assert "the first is line 1)" in note(text)


def test_what_stands_in_a_document_beside_its_records_is_seen() -> None:
    records = [
        {
            "@timestamp": f"2026-11-18T11:38:{at:02}Z",
            "message": f"[2026-11-18 11:38:{at:02},000] INFO starting (kafka.server.KafkaServer)",
        }
        for at in range(40)
    ]
    beside = [{"said": SHRINKS.format(at), "by": at} for at in range(9)]
    text = json.dumps({"hits": records, "others": beside}, indent=1)

    assert SAYS in note(text, "export.json")
    assert re.search(r"\b9 line\(s\)", note(text, "export.json"))


def test_lines_below_records_are_seen_but_no_stack_traces() -> None:
    below = [f"   {SHRINKS.format(at)}" for at in range(5)]
    trace = [
        "\tat kafka.Partition.Shrinking ISR from 1,2 to 1(x)",
        f"Caused by: {SHRINKS.format(1)}",
    ]

    assert "5 line(s) were" in note("\n".join([*WHOLE, *below]) + "\n")
    assert note("\n".join([*WHOLE, *trace]) + "\n") == ""


def test_records_of_others_and_quiet_rules_are_left_alone() -> None:
    other = "[2026-11-18 11:38:00,000] INFO {} (com.acme.Mirror)\n"
    routine = (
        "[2026-11-18 11:48:14,351] INFO Unable to reconnect to ZooKeeper service, session 0x1 has"
        " expired, closing socket connection (org.apache.zookeeper.ClientCnxn)\n"
    )

    assert SAYS not in note("".join(other.format(SHRINKS.format(at)) for at in range(40)))
    assert SAYS not in note("\n".join(WHOLE) + "\n" + routine * 40)


def test_counts_are_the_same_for_any_split() -> None:
    lines = [f"@{at} {line}" if at % 3 else line for at, line in enumerate(PLAIN.splitlines())]
    text = "\n".join(line.replace("ISR", "ISR|") for line in lines) + "\n"
    seen = set()
    for size in (64 << 20, 30_000, 7_000):
        (file,) = read(text, split_size=size).files.values()
        seen.add(
            (
                file.unread_lines,
                file.unread_at,
                str(sorted(file.unread_messages.items())),
            )
        )

    assert len(seen) == 1


def test_without_hyperscan_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = load_scanner().reader
    text = PLAIN.encode()
    at_once = reader.messages.count(text)
    monkeypatch.setattr(unread_messages, "open_pattern_set", lambda _: None)
    slow = KnownMessages(reader.rules, reader.judge.loggers)

    assert 0 < slow.count(text) <= at_once
    assert slow.count(text) > 0.9 * at_once
