"""A store says the same whatever the order in which its logs were given, and however often."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from forensics.detection import runner
from forensics.engine import local
from forensics.errors import ForensicsError
from forensics.lib.second_process import open_second_process
from forensics.report import page
from tests.weekly.audits import WEEKS, Audits, archives_in
from tests.weekly.shifted_logs import read_store

pytestmark = pytest.mark.slow

Archives = dict[str, Path]
PAIR = [WEEKS[0], WEEKS[3]]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return archives_in(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def whole(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Audits:
    """Give the store that got everything at once; nobody changes it."""
    audits = Audits(tmp_path_factory.mktemp("whole") / "store")
    audits.run(*archives.values())
    return audits


@pytest.fixture(scope="module")
def pair(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Audits:
    """Give a store of two weeks; nobody changes it."""
    audits = Audits(tmp_path_factory.mktemp("pair") / "store")
    audits.run(archives["one"], archives["four"])
    return audits


@pytest.fixture
def again(pair: Audits, tmp_path: Path) -> Audits:
    """Give a copy of that store, to go on with."""
    return Audits(shutil.copytree(pair.store, tmp_path / "store"))


def test_one_by_one_is_as_all_at_once(archives: Archives, whole: Audits, tmp_path: Path) -> None:
    audits = Audits(tmp_path / "store")
    built = [audits.run(one)["built"] for one in archives.values()]

    assert read_store(whole.store) == read_store(audits.store)
    # The third comes on Wednesday of a week that has begun before.
    assert [WEEKS[:1], WEEKS[1:3], WEEKS[2:3], WEEKS[3:]] == built


@pytest.mark.parametrize("is_lost", [False, True])
def test_two_processes_build_the_same_store(
    archives: Archives, pair: Audits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    *, is_lost: bool,
) -> None:  # fmt: skip
    """All that they share is shared, or the first one does all."""
    for module, name in (
        (local, "SHARED_BYTES"), (local, "SHARED_EVENTS"),
        (runner, "_MANY_EVENTS"), (page, "_MANY_EVENTS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 0)
    with open_second_process() as second:
        if is_lost and second.pid:
            second.start(os._exit, 1)
        audits = Audits(tmp_path / "store", second=second)
        audits.run(archives["one"], archives["four"], engine="local")

        assert second.pid is None or is_lost != second.is_there
    assert read_store(pair.store) == read_store(audits.store)


def test_a_part_of_a_log_under_another_name_counts_once(
    archives: Archives, pair: Audits, tmp_path: Path
) -> None:
    given = shutil.copytree(archives["one"], tmp_path / "more" / "logs")
    text = (given / "broker-1" / "server.log").read_text("utf-8")
    middle = text[text.index("\n[", len(text) // 3) + 1 : text.index("\n[", len(text) // 2) + 1]
    (given / "broker-1" / "excerpt.txt").write_text(middle, "utf-8")
    audits = Audits(tmp_path / "store")
    audits.run(given, archives["four"])

    assert _events(audits, WEEKS[0]) == _events(pair, WEEKS[0])
    files = pq.read_table(audits.store / "weeks" / WEEKS[0] / "tables/files").to_pylist()
    told = {row["file"].rpartition("/")[2]: row["duplicate_lines"] for row in files}
    assert told["excerpt.txt"] > 0


def _events(audits: Audits, week: str) -> list[str]:
    names = ["ts", "node", "kind", "topic", "partition", "leader_epoch", "detail"]
    rows = pq.read_table(audits.store / "weeks" / week / "tables/events", columns=names).to_pylist()
    return sorted(map(repr, rows))


def test_neither_order_nor_a_late_nor_a_doubled_file_leaves_a_trace(
    archives: Archives, whole: Audits, tmp_path: Path
) -> None:
    early = shutil.copytree(archives["two"], tmp_path / "early" / "logs")
    late = tmp_path / "late" / "logs" / "broker-1" / "server.log"
    late.parent.mkdir(parents=True)
    shutil.move(early / "broker-1" / "server.log", late)
    twin = tmp_path / "twin" / "logs" / "broker-1" / "server.log.2026-11-18-19"
    twin.parent.mkdir(parents=True)
    shutil.copy(archives["three"] / "broker-1" / "server.log", twin)
    audits = Audits(tmp_path / "store")

    for given in (early, twin.parents[1], archives["four"], archives["one"], archives["three"]):
        audits.run(given)
    assert read_store(whole.store) != read_store(audits.store)
    audits.run(late.parents[1])

    assert read_store(whole.store) == read_store(audits.store)


def test_what_was_read_is_not_read_again(archives: Archives, again: Audits) -> None:
    before = read_store(again.store)
    result = again.run(archives["four"], archives["one"])

    assert (0, 0) == (result["new"], result["read_bytes"])
    assert ("start" in result["seconds"], "built" in result, result["drawn"]) == (False, False, [])
    assert before == read_store(again.store)


def test_the_same_logs_in_an_archive_with_a_longer_name_change_no_week(
    archives: Archives, again: Audits, tmp_path: Path
) -> None:
    with tarfile.open(tmp_path / "the-logs-of-a-week.tgz", "w:gz") as packed:
        packed.add(archives["one"], arcname=".")
    result = again.run(tmp_path / "the-logs-of-a-week.tgz")

    assert (1, 0) == (result["new"], result["events"])
    assert "built" not in result


def test_every_finding_belongs_to_one_week(whole: Audits) -> None:
    found = {}
    for week in WEEKS:
        text = (whole.store / "weeks" / week / "findings.json").read_text("utf-8")
        found[week] = {one["id"] for one in json.loads(text)["findings"]}

    assert all(found[week] for week in ("2026-W44", "2026-W46", "2026-W47"))
    assert sum(map(len, found.values())) == len(set().union(*found.values()))


def test_a_log_that_has_grown_takes_the_place_of_its_beginning(
    archives: Archives, tmp_path: Path
) -> None:
    grown = archives["one"] / "broker-1" / "server.log"
    text = grown.read_bytes()
    live = tmp_path / "live" / "server.log"
    live.parent.mkdir()
    # In the middle of a line, as a log is found that is being written to.
    live.write_bytes(text[: len(text) * 2 // 3])
    forth, back, alone = (Audits(tmp_path / name) for name in ("forth", "back", "alone"))

    forth.run(live)
    assert 1 == forth.run(grown)["superseded"]
    back.run(grown)
    back.run(live)
    alone.run(grown)

    assert read_store(forth.store) == read_store(back.store)
    mine, theirs = read_store(forth.store), read_store(alone.store)
    assert {"inputs/containers.parquet", "inputs/logs.parquet"} == {
        name for name in mine | theirs if mine.get(name) != theirs.get(name)
    }
    rows = pq.read_table(forth.store / "inputs" / "logs.parquet").to_pylist()
    short, long = sorted(rows, key=lambda row: row["bytes"])
    assert (long["id"], None) == (short["superseded_by"], long["superseded_by"])


def test_a_log_that_only_begins_alike_is_another(archives: Archives, tmp_path: Path) -> None:
    text = (archives["one"] / "broker-1" / "server.log").read_bytes()
    common, short = (text.index(b"\n", at) + 1 for at in (70_000, 90_000))
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_bytes(text[:short])
    # Restored from a copy that was a little older, and gone its own way: other lines, and more.
    other.write_bytes(text[:common] + text[short:] + text[common:])
    audits = Audits(tmp_path / "store")

    assert 0 == audits.run(one, other)["superseded"]


def test_only_the_newest_weeks_are_kept(archives: Archives, tmp_path: Path) -> None:
    slowly, quickly = Audits(tmp_path / "slowly"), Audits(tmp_path / "quickly")
    for given in archives.values():
        slowly.run(given, keep_weeks=2)
    quickly.run(*archives.values(), keep_weeks=2)

    assert read_store(quickly.store) == read_store(slowly.store)
    assert WEEKS[2:] == sorted(path.name for path in (slowly.store / "weeks").iterdir())
    assert not list(slowly.store.glob("events/week=2026-W44/*"))
    assert 0 == slowly.run(archives["one"])["new"]
    assert read_store(quickly.store) == read_store(slowly.store)


def test_a_late_file_of_a_week_that_was_let_go_does_not_bring_it_back(
    archives: Archives, tmp_path: Path
) -> None:
    audits = Audits(tmp_path / "store")
    audits.run(archives["three"], archives["four"])
    audits.run(archives["four"], keep_weeks=1)
    audits.run(archives["one"])

    assert WEEKS[3:] == [path.name for path in (audits.store / "weeks").iterdir()]


def pack(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "pack.yaml").write_text("name: ours\nversion: '1'\n")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_changed_limits_build_all_weeks_again_without_a_log(
    archives: Archives, again: Audits, tmp_path: Path
) -> None:
    before = read_store(again.store)
    ours = pack(tmp_path / "ours", "limits.yaml", "clock-skew:\n  skew_s: 300\n")
    result = again.run(archives["one"], packs=(ours,))

    assert (0, PAIR) == (result["new"], result["built"])
    assert 0 == result["older_rules"]
    again.run(archives["one"])
    assert before == read_store(again.store)


def test_logs_read_by_older_rules_are_named_and_read_again_when_they_are_given_again(
    archives: Archives, again: Audits, tmp_path: Path
) -> None:
    rules = sorted((Path(__file__).parents[2] / "rules" / "events" / "pauses").glob("*.yaml"))
    ours = pack(tmp_path / "ours", "events/ours.yaml", rules[0].read_text("utf-8"))

    result = again.run(archives["four"], packs=(ours,))
    assert result["new"] == sum(path.is_file() for path in archives["four"].rglob("*"))
    older_rules = {
        week: json.loads((again.store / "weeks" / week / "week.json").read_text())["older_rules"]
        for week in PAIR
    }
    assert [] == older_rules["2026-W47"]
    assert "logs/broker-1/server.log" in older_rules["2026-W44"]

    again.run(archives["one"], packs=(ours,))
    fresh = Audits(tmp_path / "fresh")
    fresh.run(archives["one"], archives["four"], packs=(ours,))
    assert read_store(fresh.store) == read_store(again.store)


def test_a_rebuilt_store_is_the_same(again: Audits) -> None:
    before = read_store(again.store)

    assert PAIR[:1] == again.run(week=PAIR[0])["built"]
    assert PAIR == again.run()["built"]
    assert before == read_store(again.store)


def test_a_run_for_one_week_keeps_the_events_of_all(
    archives: Archives, whole: Audits, tmp_path: Path
) -> None:
    audits = Audits(tmp_path / "store")
    result = audits.run(archives["three"], archives["four"], week=WEEKS[2])
    assert ([WEEKS[2]], WEEKS[2]) == (result["built"], result["week"])
    assert not (audits.store / "weeks" / WEEKS[3]).exists()

    audits.run(archives["one"], archives["two"])
    assert read_store(whole.store) == read_store(audits.store)


def test_a_week_without_logs_is_named_with_those_that_have_some(
    archives: Archives, again: Audits
) -> None:
    with pytest.raises(ForensicsError, match=r"no logs of 2026-W40; it has 2026-W44 to 2026-W47"):
        again.run(archives["one"], week="2026-W40")

    result = json.loads((again.store / "_RESULT.json").read_text("utf-8"))
    assert 1 == result["exit_code"]


def test_what_was_read_for_a_week_that_is_not_there_is_kept(
    archives: Archives, whole: Audits, tmp_path: Path
) -> None:
    audits = Audits(tmp_path / "store")
    audits.run(archives["one"], archives["two"], archives["four"])
    with pytest.raises(ForensicsError, match=r"no logs of 2026-W40"):
        audits.run(archives["three"], week="2026-W40")

    result = audits.run(*archives.values())
    assert (0, WEEKS[2:3]) == (result["new"], result["built"])
    assert read_store(whole.store) == read_store(audits.store)


def test_a_folder_that_is_no_store_is_left_alone(archives: Archives, tmp_path: Path) -> None:
    (tmp_path / "weeks").mkdir()
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(ForensicsError, match=r"is no store: it has no store.json, but holds mine"):
        Audits(tmp_path).run(archives["one"])
    assert ["mine.txt", "weeks"] == sorted(path.name for path in tmp_path.iterdir())


def test_the_end_speaks_of_one_week(archives: Archives, whole: Audits, tmp_path: Path) -> None:
    """The newest if none is named: of what level its findings are decides, and of no other's."""
    audits = Audits(shutil.copytree(whole.store, tmp_path / "store"))
    verdicts = audits.run(archives["one"])["weeks"]
    loud = next(week for week, verdict in verdicts.items() if verdict == "incident")
    quiet = next(week for week, verdict in verdicts.items() if verdict != "incident")

    assert 3 == audits.run(archives["one"], week=loud, fail_on="medium")["exit_code"]
    assert 3 != audits.run(archives["one"], week=quiet, fail_on="medium")["exit_code"]
    assert WEEKS[-1] == audits.run(archives["one"])["week"]


def test_notes_are_the_users_own(archives: Archives, again: Audits) -> None:
    text = (again.store / "weeks" / PAIR[1] / "findings.json").read_text("utf-8")
    known = json.loads(text)["findings"][0]["id"]
    (again.store / "notes.yaml").write_text(f"{known}:\n  owner: Ada\n  ticket: OPS-7\n")
    result = again.run(archives["one"])

    assert PAIR == result["drawn"]
    assert f"{known}:\n  owner: Ada\n  ticket: OPS-7\n" == (again.store / "notes.yaml").read_text()
    assert "OPS-7" in (again.store / "weeks" / PAIR[1] / "index.html").read_text("utf-8")


def test_an_archive_that_cannot_be_opened_is_told_of_once_and_for_all(
    archives: Archives, again: Audits, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "cut.zip").write_bytes(b"PK\x03\x04" + bytes(40))
    result = again.run(tmp_path / "logs", strict=True)

    assert 1 == result["new"]
    assert 0 == again.run(tmp_path / "logs", archives["one"])["new"]


@pytest.mark.parametrize(
    "wrong", ["9999-12-31 23:59:59", "0001-01-01 00:00:00", "1969-12-31 09:00:00"]
)
def test_a_wrong_date_makes_no_week(wrong: str, archives: Archives, tmp_path: Path) -> None:
    log = (archives["four"] / "broker-1" / "server.log").read_text("utf-8").splitlines(True)
    dated = re.compile(r"^\[[-\d]+ [:\d]+")
    # Lines that tell something, in the midst of others.
    lies = [dated.sub(f"[{wrong}", line) for line in log[:80] if dated.match(line)]
    logs = tmp_path / "logs" / "broker-1"
    logs.mkdir(parents=True)
    (logs / "server.log").write_text("".join([*log[:300], *lies, *log[300:]]), encoding="utf-8")
    audits = Audits(tmp_path / "store")

    assert WEEKS[3:] == audits.run(logs.parent)["built"]
    before = read_store(audits.store)
    assert WEEKS[3:] == audits.run()["built"]
    assert before == read_store(audits.store)


def test_of_two_clusters_one_is_audited_alone_and_a_mixed_week_is_said_not_to_be_trusted(
    tmp_path: Path,
) -> None:
    ids = {"east": "mfUi4bhOTUC5rJ6cQyI-Pg", "west": "DXABGna8RH6ECjDquWdcHA"}
    for name, cluster in ids.items():
        path = tmp_path / "logs" / name / "broker-1" / "server.log"
        path.parent.mkdir(parents=True)
        path.write_text(
            f"[2026-11-18 11:30:00,000] INFO Cluster ID = {cluster} (kafka.server.KafkaServer)\n"
            "[2026-11-18 11:30:01,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
        )
    mixed, alone = Audits(tmp_path / "mixed"), Audits(tmp_path / "alone")
    both = mixed.run(tmp_path / "logs", strict=True)
    alone.run(tmp_path / "logs", cluster=ids["west"])

    assert both["exit_code"] == 4
    assert any("2026-W47 is not to be trusted: These are logs of 2" in told for told in mixed.said)
    events = pq.read_table(alone.store / "weeks/2026-W47/tables/events")
    assert {file.split("/")[-3] for file in events["file"].to_pylist()} == {"west"}
    assert not any("trusted" in told for told in alone.said)
