"""A pack of one's own adds, replaces and takes away by id, and says so in the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.errors import RuleError
from forensics.events.packs import (
    Pack,
    load_rule_set,
    merge_packs,
    open_pack,
    packs_from_json,
    packs_to_json,
)
from forensics.events.rules import Rule
from forensics.events.scan import load_scanner
from forensics.ingest.read_plan import plan_reading
from forensics.lib.yaml_with_lines import FileText
from forensics.parsing.layouts import Layout
from forensics.rule_tools.check import check_rules
from tests.ingest.json_formats import read_records
from tests.ingest.sample_archives import LOGS

OWN = """\
id: acme.flag
kind: acme_flagged
logger: AcmeInterceptor
wordings:
  - versions: ["3.0", "4.3"]
    match: "flag {detail:word} raised for {:tp}"
    examples:
      - line: "[2026-11-18 11:51:22,793] INFO flag late raised for orders-3 (com.acme.AcmeInterceptor)"
        gives: {detail: late, topic: orders, partition: 3}
refuses:
  - "[2026-11-18 11:51:22,793] INFO flag late lowered for orders-3 (com.acme.AcmeInterceptor)"
"""  # noqa: E501
HEAD = "name: acme\nversion: '7'\n"


# An object whose keys no shipped wrapper knows.
SHIPPER = """\
id: acme-shipper
json: {message: payload, time: at, level: grade, logger: source, host: machine}
examples:
  - line: '{"machine":"b1","payload":"[2026-11-18 11:31:58,423] INFO starting (kafka.server.KafkaServer)"}'
    gives: {line: "[2026-11-18 11:31:58,423] INFO starting (kafka.server.KafkaServer)", origin: b1}
refuses:
  - '{"payload":7}'
"""  # noqa: E501


def pack(folder: Path, **pages: str) -> Pack:
    for name, text in pages.items():
        path = folder / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return open_pack(folder)


def test_a_pack_adds_rules_with_kinds_of_its_own(
    tmp_path: Path, layouts: tuple[Layout, ...], rules: tuple[Rule, ...]
) -> None:
    own = pack(tmp_path, pack=HEAD, events__flag=OWN, kinds__acme="acme_flagged: a flag\n")

    found = load_rule_set([own])

    assert {rule.id for rule in found.rules} == {rule.id for rule in rules} | {"acme.flag"}
    assert check_rules(layouts, found.rules) == []
    assert [dict(one) for one in found.packs][1] == {
        "name": "acme",
        "version": "7",
        "sha256": own.sha256,
    }


def test_a_rule_may_stand_beside_the_head_of_its_pack(tmp_path: Path) -> None:
    found = load_rule_set([pack(tmp_path, flag=OWN, kinds__acme="acme_flagged: a flag\n")])

    assert "acme.flag" in {rule.id for rule in found.rules}
    assert found.packs[1]["name"] == tmp_path.name


def test_a_pack_replaces_by_id_and_takes_away(tmp_path: Path) -> None:
    mine = OWN.replace("acme.flag", "leader.starts").replace("acme_flagged", "recovering")
    own = pack(tmp_path, pack=HEAD + "disable: [follower.starts, librdkafka]\n", starts=mine)

    found = load_rule_set([own])

    (starts,) = (rule for rule in found.rules if rule.id == "leader.starts")
    assert starts.loggers == ("AcmeInterceptor",)
    assert "follower.starts" not in {rule.id for rule in found.rules}
    assert "librdkafka" not in {layout.id for layout in found.layouts}


def test_the_last_pack_lies_on_top(tmp_path: Path) -> None:
    kinds = "acme_flagged: a flag\n"
    first = pack(tmp_path / "a", flag=OWN, kinds__acme=kinds)
    second = pack(tmp_path / "b", flag=OWN.replace("AcmeInter", "AcmeOuter"), kinds__acme=kinds)

    (mine,) = (rule for rule in load_rule_set([first, second]).rules if rule.id == "acme.flag")

    assert mine.loggers == ("AcmeOuterceptor",)


@pytest.mark.parametrize(
    ("head", "line", "says"),
    [
        ("nam: acme\n", 1, "unknown key 'nam'"),
        ("name: acme\nneeds: '99.1'\n", 2, "needs kafka-forensics 99.1 or newer"),
        ("name: acme\ndisable: [no.such]\n", 2, "'disable' names 'no.such', which is no rule"),
        ("name: acme\ndisable: everything\n", 2, "'disable' must be a list"),
    ],
)
def test_a_head_that_does_not_hold_is_named(
    head: str, line: int, says: str, tmp_path: Path
) -> None:
    _, problems = merge_packs([pack(tmp_path, pack=head)])

    assert [(one.line, one.message[: len(says)]) for one in problems] == [(line, says)]
    assert problems[0].file == str(tmp_path / "pack.yaml")


def test_an_unknown_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"flag\.yaml:2: there is no kind 'acme_flagged'"):
        load_rule_set([pack(tmp_path, flag=OWN)])


def test_the_digest_names_the_content_and_nothing_else(tmp_path: Path) -> None:
    first = pack(tmp_path / "a", pack=HEAD, flag=OWN)
    second = pack(tmp_path / "b", flag=OWN, pack=HEAD)
    other = pack(tmp_path / "c", pack=HEAD, flag=OWN + "\n")

    assert first.sha256 == second.sha256 != other.sha256
    assert load_rule_set().packs[0]["sha256"] == load_rule_set().packs[0]["sha256"]


def test_packs_travel_to_workers_that_do_not_have_their_folder(tmp_path: Path) -> None:
    own = pack(tmp_path, pack=HEAD, flag=OWN, kinds__acme="acme_flagged: a flag\n")
    text = packs_to_json([own])
    for path in tmp_path.rglob("*.yaml"):
        path.unlink()

    assert "AcmeInterceptor" in load_scanner(text).reader.matcher.loggers
    assert packs_from_json(text)[0].sha256 == own.sha256
    assert packs_from_json("") == []
    assert FileText("x", b"a: 1").read_text() == "a: 1"


def test_no_link_leads_out_of_a_pack(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("password: hunter2\n")
    (tmp_path / "pack" / "detectors").mkdir(parents=True)
    (tmp_path / "pack" / "stolen.yaml").symlink_to(tmp_path / "secret.yaml")
    (tmp_path / "pack" / "detectors" / "theirs.py").symlink_to(tmp_path / "secret.yaml")

    with pytest.raises(RuleError) as refused:
        open_pack(tmp_path / "pack")

    says = "a link that leads out of the pack; copy the file into it"
    assert [str(one) for one in refused.value.problems] == [
        f"{tmp_path}/pack/detectors/theirs.py:1: {says}",
        f"{tmp_path}/pack/stolen.yaml:1: {says}",
    ]


def test_links_within_a_pack_are_followed(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "flag.yaml").write_text(OWN)
    (tmp_path / "flag.yaml").symlink_to("..data/flag.yaml")

    assert open_pack(tmp_path).pages["flag.yaml"].data == OWN.encode()


def test_a_pack_brings_wrappers(tmp_path: Path, layouts: tuple[Layout, ...]) -> None:
    own = pack(tmp_path / "pack", pack=HEAD, wrappers__shipper=SHIPPER)
    rules = load_rule_set(packs_from_json(packs_to_json([own])))
    records = list(read_records((LOGS / "broker-1/server.log").read_text("utf-8")))
    parts = (
        {"at": one.iso, "grade": one.level, "source": one.logger, "payload": one.message}
        for one in records
    )
    lines = "".join(json.dumps(one) + "\n" for one in parts)
    (tmp_path / "server.log").write_text(lines, encoding="utf-8")
    (split,) = plan_reading([str(tmp_path / "server.log")], 64 << 20).splits
    texts = packs_to_json([own])

    def wrappers_met(overlays: str) -> dict[str, int]:
        rows = [row for one in load_scanner(overlays).scan(split) for row in one.to_pylist()]
        (account,) = (json.loads(row["account"]) for row in rows if row["account"])
        assert account["events"] == sum(row["kind"] is not None for row in rows) > 100
        return dict(account["forms"])

    assert rules.wrappers[0].id == "acme-shipper"
    assert check_rules(layouts, [], rules.wrappers) == []
    # Without the pack the fields are known by what they hold.
    assert wrappers_met("") == {"json": len(records)}
    assert wrappers_met(texts) == {"acme-shipper": len(records)}


def test_a_pack_replaces_wrappers_and_takes_them_away(tmp_path: Path) -> None:
    own = pack(
        tmp_path,
        pack=HEAD + "disable: [compose]\n",
        wrappers__json=SHIPPER.replace("acme-shipper", "json"),
    )
    shipped = {one.id for one in load_rule_set().wrappers}
    found = {one.id: one for one in load_rule_set([own]).wrappers}

    assert set(found) == shipped - {"compose"}
    assert found["json"].origin.file.startswith(str(tmp_path))


def test_a_wrapper_that_does_not_hold_is_named(tmp_path: Path) -> None:
    own = pack(tmp_path, pack=HEAD, wrappers__one=SHIPPER, wrappers__two=SHIPPER)
    bad = pack(
        tmp_path / "bad",
        wrappers__bad=SHIPPER.replace("payload", "p").replace("{message: p", "{m: p"),
    )
    _, problems = merge_packs([own, bad])

    assert {"id 'acme-shipper' is taken", "'json' must name the keys of 'message'"} == {
        problem.message.partition(" by ")[0] for problem in problems
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pack", "disable: [{}]\n"),
        ("pack", "disable: true\n"),
        ("layouts__own", "id: {}\nmatch: 1.5\ntime: [1]\nexamples: []\n"),
        ("kinds__own", "x: {means: [1], context: {}}\n"),
        ("events__own", "id: []\nkind: {}\nlogger: 7\nwordings: {a: 1}\n"),
        ("wrappers__own", "id: {}\nexamples: 7\nrefuses: {}\njson: 3\n"),
    ],
)
def test_values_of_any_type_are_problems_and_no_accidents(
    tmp_path: Path, name: str, text: str
) -> None:
    _, problems = merge_packs([pack(tmp_path, **{name: text})])

    assert name.startswith("kinds") or problems
    assert all(problem.file.endswith(f"{name.replace('__', '/')}.yaml") for problem in problems)
