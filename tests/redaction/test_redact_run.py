"""A redacted run says the same of others: no name survives, and nothing but names is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from forensics.cli.app import jobs_folder, make_group
from forensics.errors import ForensicsError
from forensics.redacted_run import parse_classes, redact_saved_run
from forensics.redaction.name_patterns import find_names
from forensics.redaction.pseudonyms import CLASSES, Pseudonyms
from forensics.redaction.text_replacer import Replacer
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.export_outputs import exported, survivors
from tests.report.recorded import SAMPLES, postmortem
from tests.report.sample_runs import document, errors, file, finding, lanes, leadership, proof, save

pytestmark = pytest.mark.slow

RECORDINGS = ("430-unclean", "282-flapping")
Row = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """A run, the same run redacted, and the private map."""

    plain: Path
    redacted: Path
    secret: Path

    @property
    def names(self) -> dict[str, str]:
        """Every name and its pseudonym."""
        told = json.loads(self.secret.read_text("utf-8"))["names"]
        return {name: other for known in told.values() for name, other in known.items()}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """Redact two recorded clusters with one map."""
    root = tmp_path_factory.mktemp("redacted")
    made = {}
    for name in RECORDINGS:
        plain = postmortem(name, root / name)
        redact_saved_run(plain, root / f"{name}-redacted", CLASSES, root / "map.json")
        made[name] = Pair(plain, root / f"{name}-redacted", root / "map.json")
    return made


def names_of(recording: str) -> list[str]:
    """What the truth calls topics and clients; words that stand in any page are left out."""
    truth = SAMPLES / recording / "truth"
    actions = json.loads((truth / "run.json").read_text("utf-8"))["actions"]
    rows = [
        json.loads(line) for line in (truth / "partitions.jsonl").read_text("utf-8").splitlines()
    ]
    topics = {str(row["topic"]) for row in [*actions, *rows] if row.get("topic")}
    clients = {str(row["name"]) for row in actions if row.get("do") in ("client", "stop-client")}
    return sorted(name for name in topics | clients if not name.startswith("__"))


def table(out: Path, name: str) -> Any:
    return ds.dataset(out / "tables" / name, format="parquet").to_table()


def without_names(value: Any, names: Mapping[str, str]) -> Any:
    """Put pseudonyms in the place of names, as somebody with the map and an editor would."""
    if isinstance(value, str):
        found = re.compile("|".join(
            rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])"
            for one in sorted(names, key=len, reverse=True)
        ))  # fmt: skip
        return found.sub(lambda hit: names[hit[0]], value)
    if isinstance(value, dict):
        return {names.get(key, key): without_names(one, names) for key, one in value.items()}
    return [without_names(one, names) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", RECORDINGS)
def test_findings_are_equal_but_for_the_names(pairs: dict[str, Pair], name: str) -> None:
    pair = pairs[name]
    before, after = (
        json.loads((out / "findings.json").read_text("utf-8"))
        for out in (pair.plain, pair.redacted)
    )
    assert after.pop("redaction") == {"classes": list(CLASSES), "secrets": "masked"}
    expected = {key: one if key in ("rules", "packs") else without_names(one, pair.names)
                for key, one in before.items()}  # fmt: skip
    # Where level and time are alike, the new ids decide the order.
    mine = sorted(expected["findings"], key=lambda one: one["id"])
    theirs = sorted(after["findings"], key=lambda one: one["id"])

    for one, other in zip(mine, theirs, strict=True):
        assert one == other | {"evidence": one["evidence"]}
        assert [untorn(line) for line in one["evidence"]] == [
            untorn(line) for line in other["evidence"]
        ]
    assert [one["from"] for one in after["findings"]] == [one["from"] for one in before["findings"]]
    rest = [key for key in before if key not in ("findings", "chains")]
    assert {key: after[key] for key in rest} == {key: expected[key] for key in rest}


def untorn(line: Row) -> Row:
    """Leave out the last word of a line that was cut off: it may be half a name."""
    text = str(line["text"])
    return line | {"text": re.sub(r"[\w.-]*…?$", "", text) if len(text) >= 230 else text}


@pytest.mark.parametrize("name", RECORDINGS)
def test_tables_keep_their_rows_their_epochs_and_their_order(
    pairs: dict[str, Pair], name: str
) -> None:
    pair = pairs[name]
    for folder in sorted((pair.plain / "tables").iterdir()):
        before, after = table(pair.plain, folder.name), table(pair.redacted, folder.name)
        assert before.schema.equals(after.schema)
        for field in before.schema:
            one, other = before[field.name], after[field.name]
            if field.type != "string" and field.name != "evidence":
                assert one.equals(other), (folder.name, field.name)
            if field.name in ("topic", "client", "node", "file"):
                both = set(zip(one.to_pylist(), other.to_pylist(), strict=True))
                # Two names stay two, and no name becomes two.
                assert len(both) == len(one.unique()) == len(other.unique())


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_name_is_left_in_anything(pairs: dict[str, Pair], name: str, tmp_path: Path) -> None:
    """Looks into every file, unpacked, and into every export."""
    pair = pairs[name]
    folders = [pair.redacted, exported(pair.redacted, tmp_path)]

    assert len(names_of(name)) >= 6
    assert survivors(folders, names_of(name)) == set()
    # The same search finds them all in the run that is not redacted.
    assert {hit for _, hit in survivors([pair.plain], names_of(name))} == set(names_of(name))


def test_a_name_has_one_pseudonym_in_every_run_of_a_map(
    pairs: dict[str, Pair], tmp_path: Path
) -> None:
    one, other = (pairs[name] for name in RECORDINGS)
    clients = [set(table(pair.redacted, "events")["client"].to_pylist()) for pair in (one, other)]
    assert one.names["app-orders"] in clients[0] & clients[1]

    # Another map: other pseudonyms, since nobody knows its key.
    redact_saved_run(one.plain, tmp_path / "other", CLASSES, tmp_path / "map.json")
    theirs = Pair(one.plain, tmp_path / "other", tmp_path / "map.json").names
    assert not set(theirs.values()) & set(one.names.values())
    # The same map once more: the same bytes.
    redact_saved_run(one.plain, tmp_path / "again", CLASSES, one.secret)
    for path in sorted(one.redacted.rglob("*")):
        if path.is_file():
            assert (
                tmp_path / "again" / path.relative_to(one.redacted)
            ).read_bytes() == path.read_bytes()


def test_the_page_and_the_verdict_are_drawn_from_the_redacted_tables(
    pairs: dict[str, Pair],
) -> None:
    for pair in pairs.values():
        plain, redacted = load_run(pair.plain), load_run(pair.redacted)
        assert plain.document["verdict"] == redacted.document["verdict"]
        page = (pair.redacted / "report.html").read_text("utf-8")
        assert "Redacted: hosts, ips, clients, topics, principals have pseudonyms here" in page
        # As many cards, partitions and nodes as before.
        assert plain.partition_count == redacted.partition_count
        for mark in ('data-kind="finding"', 'class="card', "<tr"):
            assert page.count(mark) == (pair.plain / "report.html").read_text("utf-8").count(mark)


def test_the_map_is_private_and_lies_outside(pairs: dict[str, Pair], tmp_path: Path) -> None:
    pair = pairs["430-unclean"]
    assert pair.secret.stat().st_mode & 0o777 == 0o600
    command = make_group(jobs_folder())

    done = CliRunner().invoke(command, ["redact", str(pair.plain), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.redaction-map.json"]
    for wrong in (("-o", tmp_path / "new", "--map", tmp_path / "new" / "map.json"),
                  ("-o", pair.plain), ("-o", pair.plain / "inside"),
                  ("-o", tmp_path / "new", "--redact", "everything")):  # fmt: skip
        done = CliRunner().invoke(command, ["redact", str(pair.plain), *map(str, wrong)])
        assert done.exit_code == 1, wrong
        assert not (tmp_path / "new").exists()


def test_what_is_not_redacted_yet_is_never_written_over(
    pairs: dict[str, Pair], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report-old.html").write_text("app-orders", "utf-8")

    with pytest.raises(ForensicsError, match="not redacted"):
        redact_saved_run(
            pairs["430-unclean"].plain, tmp_path / "out", CLASSES, tmp_path / "map.json"
        )


# Names that would break a pattern, a page, a table or the text around them.
HOSTILE = (
    "broker", "controller", "a", "a.b", "a.b.c", "x+(y)*[z]|^$\\d{2}", "<img src=x>", "7", "in",
    "Ünïcødé-тема", "orders", "orders-v2", "very-" * 200 + "long", "topic-00000000", "sync",
    "per cent%20", 'quo"te', "records", "{}", "--", "line\nbreak",
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A run whose topics and clients have such names, each in its columns and in its texts."""
    out = tmp_path / "hostile"
    rows = [row | {"topic": name} for name in HOSTILE for row in leadership()[:4]]
    save(out, "leadership", rows)
    told = errors()[: len(HOSTILE)]
    save(out, "events", [
        row | {"topic": name, "partition": 0, "client": name, "group": f"g-{name}",
               "text": f"[Producer clientId={name}] No topic {name}, partition {name}-0: broker 1"}
        for row, name in zip(told, HOSTILE, strict=True)
    ])  # fmt: skip
    save(out, "lanes", lanes())
    save(out, "files", [file("broker-1", "server"), file("app-metrics", "client", role="client")])
    found = [
        finding(f"F-{at:08x}", "stale-metadata", "medium", title=f"{name}: 3 errors",
                clients=[name], partitions=[f"{name}-0"],
                evidence=[proof(1, at, f"[Partition {name}-0 broker=1] x")])
        for at, name in enumerate(HOSTILE)
    ]  # fmt: skip
    write_findings(document(found), out / "findings.json")
    return out


def test_hostile_names_go_and_the_rest_stays(hostile: Path, tmp_path: Path) -> None:
    redact_saved_run(hostile, tmp_path / "out", CLASSES, tmp_path / "map.json")
    told = json.loads((tmp_path / "map.json").read_text("utf-8"))["names"]
    names = {kind: told[kind] for kind in ("topics", "clients")}
    assert set(names["topics"]) >= set(HOSTILE)

    rows = table(tmp_path / "out", "events").to_pylist()
    for name, row in zip(HOSTILE, rows, strict=True):
        topic, client = names["topics"][name], names["clients"][name]
        assert (row["topic"], row["client"]) == (topic, client)
        assert row["group"] == names["clients"][f"g-{name}"]
        # A name that is both has the pseudonym of one of them; brokers stay brokers.
        assert row["text"].endswith(": broker 1")
        if name not in ("a", "7", "in", "--", "{}"):
            assert row["text"].count(topic) + row["text"].count(client) == 3, row["text"]
    for one in load_run(tmp_path / "out").findings:
        assert one.clients[0] in names["clients"].values()
        assert one.partitions[0].rpartition("-")[0] in names["topics"].values()
    assert (tmp_path / "out" / "report.html").is_file()


def replacer(
    names: Mapping[str, list[str]], partitions: Collection[tuple[str, int]] = ()
) -> Replacer:
    return Replacer(names, Pseudonyms(b"k" * 32), partitions)


def short(text: str) -> str:
    """Leave the digits of pseudonyms out."""
    return re.sub(r"\b(topic|client|host|ip|principal|path)-[0-9a-f]{8}", r"\1~", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Partition broker-1 broker=2] topic broker",
         "[Partition topic~-1 broker=2] topic topic~"),
        ("Fencing broker 1, broker-7 is away", "Fencing broker 1, broker-7 is away"),
        ("orders-v2-3, orders-3, reorders-3", "topic~-3, topic~-3, reorders-3"),
        ("/data/orders-v2-3/0000.log", "/data/topic~-3/0000.log"),
        ("[Producer clientId=web]", "[Producer clientId=client~]"),
        ("/10.1.2.3:9092, /127.0.0.1:9092", "/ip~:9092, /127.0.0.1:9092"),
        ("11:38:26,904 [fe80::1] (log.LogManager)", "11:38:26,904 [ip~] (log.LogManager)"),
        ("version 3.9.1 of 1.2.3", "version 3.9.1 of 1.2.3"),
        ("ip-10-1-2-3.ec2.internal", "ip~.ec2.internal"),
    ],
)  # fmt: skip
def test_a_text_without_names(text: str, expected: str) -> None:
    known = {"topics": ["broker", "orders", "orders-v2"], "clients": ["web"], "ips": list[str]()}

    assert short(replacer(known, {("broker", 1)}).replace(text)) == expected


def test_an_address_has_one_pseudonym_however_it_is_written() -> None:
    known = replacer({"ips": []})

    assert known.replace("10.1.2.3") == known.replace("ip-10-1-2-3")
    assert known.replace("fe80:0:0:0:0:0:0:1") == known.replace("fe80::1")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Connection to node 1 (kafka-eu/10.0.0.1:9092) could not", {("hosts", "kafka-eu")}),
        ("advertised.listeners = [PLAINTEXT://b-1.corp.local:9092]",
         {("hosts", "b-1.corp.local"), ("hosts", "b-1"), ("hosts", "corp.local")}),
        ("UnknownHostException: zk-acme: Name or service", {("hosts", "zk-acme")}),
        ("at kafka.server.KafkaServer.start(KafkaServer.java:9092)", set()),
        ("principal = User:alice is Denied", {("principals", "alice")}),
        ("principal User:CN=bob,OU=pay is Denied",
         {("principals", "CN=bob,OU=pay"), ("principals", "bob")}),
        ("login kafka/host1@ACME.COM failed", {("principals", "kafka/host1@ACME.COM")}),
        ("User:ANONYMOUS from localhost/127.0.0.1:9092", set()),
        ("[Consumer clientId=web-1, groupId=shop]", {("clients", "web-1"), ("clients", "shop")}),
        ("Revoke [invoices-0, invoices-1]", {("topics", "invoices")}),
        ("[data-plane-kafka-request-handler-3], [broker-1]", set()),
    ],
)  # fmt: skip
def test_names_are_spotted_by_what_stands_around_them(
    text: str, found: set[tuple[str, str]]
) -> None:
    assert set(find_names(pa.array([text]))) == found


def test_only_what_is_asked_for_is_redacted(pairs: dict[str, Pair], tmp_path: Path) -> None:
    plain = pairs["430-unclean"].plain
    redact_saved_run(plain, tmp_path / "out", parse_classes("topics"), tmp_path / "map.json")

    left = {hit for _, hit in survivors([tmp_path / "out"], names_of("430-unclean"))}
    assert left == {name for name in names_of("430-unclean") if name.startswith("app-")}
    assert load_run(tmp_path / "out").document["redaction"]["classes"] == ["topics"]


def test_a_redacted_run_can_be_redacted_further(pairs: dict[str, Pair], tmp_path: Path) -> None:
    plain = pairs["430-unclean"].plain
    redact_saved_run(plain, tmp_path / "some", parse_classes("topics"), tmp_path / "map.json")
    redact_saved_run(
        tmp_path / "some", tmp_path / "more", parse_classes("clients"), tmp_path / "map.json"
    )
    told = load_run(tmp_path / "more").document

    assert told["redaction"]["classes"] == ["clients", "topics"]
    assert survivors([tmp_path / "more"], names_of("430-unclean")) == set()
    # The pseudonyms of the first time stay as they were.
    topics = set(table(tmp_path / "some", "events")["topic"].to_pylist())
    assert set(table(tmp_path / "more", "events")["topic"].to_pylist()) == topics


def test_folders_and_files_are_called_otherwise_too(tmp_path: Path) -> None:
    """Folders are often called after hosts of which no text tells."""
    inside = ("prod-eu7/server.log.3", "10.1.2.3/server.log", "broker-1/kafkaServer-gc.log.0",
              "app-metrics/client.log")  # fmt: skip
    names = [f"acme.tar.gz!{name}" for name in inside]
    save(tmp_path / "run", "files", [
        file("app-metrics" if "app-" in name else "broker-1", "server", file=name,
             role="client" if "app-" in name else "broker")
        for name in names
    ])  # fmt: skip
    told = finding("F-00000001", "x", "low", title=f"{names[0]} ends early", evidence=[])
    write_findings(document([told], "clear"), tmp_path / "run" / "findings.json")
    redact_saved_run(tmp_path / "run", tmp_path / "out", CLASSES, tmp_path / "map.json")

    found = [short(name) for name in table(tmp_path / "out", "files")["file"].to_pylist()]
    assert found == ["path~.tar.gz!path~/server.log.3", "path~.tar.gz!ip~/server.log",
                     "path~.tar.gz!broker-1/kafkaServer-gc.log.0",
                     "path~.tar.gz!client~/client.log"]  # fmt: skip
    assert survivors([tmp_path / "out"], ["acme", "prod-eu7", "10.1.2.3", "app-metrics"]) == set()


def test_hosts_in_commands_go_as_those_in_settings(tmp_path: Path) -> None:
    """Commands name the addresses that brokers logged in their settings."""
    hosts, run = ["b1-eu7", "10.1.2.3", "zoo-eu7"], tmp_path / "run"
    listener, ensemble = "PLAINTEXT://b1-eu7:9092", "zoo-eu7:2181,10.1.2.3:2181/kafka"
    said = {"kind": "setting_seen", "node": "broker-1", "file": "broker-1/server.log", "line": 7}
    save(run, "files", [file("broker-1", "server", role="broker")])
    save(run, "events", [
        said | {"setting": name, "value": value, "text": f"\t{name} = {value}"}
        for name, value in (("listeners", listener), ("zookeeper.connect", ensemble))
    ])  # fmt: skip
    actions = [
        "kafka-topics.sh --bootstrap-server b1-eu7:9092,10.1.2.3:9092 --describe",
        f"zookeeper-shell.sh {ensemble} get /controller",
    ]
    told = finding("F-00000001", "x", "low", actions=actions)
    write_findings(document([told], "clear"), run / "findings.json")
    redact_saved_run(run, tmp_path / "out", CLASSES, tmp_path / "map.json")

    first, second = load_run(tmp_path / "out").findings[0].actions
    assert re.fullmatch(r"kafka-topics.sh --bootstrap-server host-\w+:9092,ip-\w+:9092 .*", first)
    assert re.fullmatch(r"zookeeper-shell.sh host-\w+:2181,ip-\w+:2181/kafka get .*", second)
    assert survivors([tmp_path / "out"], hosts) == set()
