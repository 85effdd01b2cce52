"""Archives behind an address are read as those on a disk are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from forensics.errors import ArchiveError
from forensics.ingest.line_lookup import look_up_lines
from forensics.ingest.read_plan import plan_reading
from forensics.lib import storage
from forensics.lib.storage import ObjectStore
from forensics.sandbox import run_archives
from tests.ingest.object_store import SECRET, Bucket, serving
from tests.ingest.sample_archives import ARCHIVES, LOG, TREE, write
from tests.ingest.scans import scan

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "391-rebalances"
NESTED = "over there/logs+1"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with serving(tmp_path_factory.mktemp("store")) as found:
        # What serves the bucket shows a break in a name as something else.
        tree = {name.replace("\n", " "): text for name, text in TREE.items()}
        write(found.folder / NESTED, tree)
        for name, packed in ARCHIVES.items():
            (found.folder / f"all.{name}").write_bytes(packed())
        (found.folder / "incident.tar.gz").write_bytes((SAMPLE / "logs.tar.gz").read_bytes())
        yield found


@pytest.mark.parametrize("size", [1024, 64 << 20])
def test_a_folder_of_objects_is_read_like_a_folder(bucket: Bucket, size: int) -> None:
    here = scan(bucket.folder / NESTED, split_size=size)
    there = scan(bucket.address(NESTED), split_size=size)

    assert here.accounts() == there.accounts()
    assert here.facts() == there.facts()
    assert sorted(here.files) == sorted(there.files)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_among_objects_is_read_like_one_on_a_disk(bucket: Bucket, kind: str) -> None:
    here, there = scan(bucket.folder / f"all.{kind}"), scan(bucket.address(f"all.{kind}"))

    assert sorted(here.files) == sorted(there.files)
    assert here.facts() == there.facts()
    assert here.facts()


def test_the_whole_bucket_can_be_read(bucket: Bucket) -> None:
    found = scan(bucket.address(""))

    assert f"{bucket.folder.name}/{NESTED}/broker-1/server.log" in found.files
    assert f"{bucket.folder.name}/all.tar!broker-1/server.log" in found.files


def test_the_past_of_an_archive_is_the_same_from_a_store(bucket: Bucket, tmp_path: Path) -> None:
    past = [
        ds.dataset(
            run_archives([archive], tmp_path / str(at)).tables.folder / "leadership"
        ).to_table()
        for at, archive in enumerate(
            (str(bucket.folder / "incident.tar.gz"), bucket.address("incident.tar.gz"))
        )
    ]

    assert past[0].num_rows > 0
    assert past[0].equals(past[1])


def test_a_line_is_found_again_in_a_store(bucket: Bucket) -> None:
    work = plan_reading([bucket.address("all.tar.gz")])
    [name] = [one for one in scan(bucket.address("all.tar.gz")).files if "server.log" in one
              and "broker-1" in one]  # fmt: skip
    [found] = look_up_lines(work, {name: [5]}).values()

    assert LOG.splitlines()[4] == found[0].lines[5].text


def test_what_is_not_there_or_may_not_be_seen_is_told_without_secrets(bucket: Bucket) -> None:
    gone = bucket.address("nothing/here.log")
    with pytest.raises(ArchiveError, match=r"there is no file or folder s3://.*/nothing") as error:
        plan_reading([gone])
    with pytest.raises(ArchiveError, match="ACCESS_DENIED") as denied:
        plan_reading([bucket.address(NESTED, secret="NOSUCHSECRET")])

    assert SECRET not in str(error.value)
    assert "NOSUCHSECRET" not in str(denied.value)


def test_an_address_that_makes_no_sense_is_told_without_secrets() -> None:
    with pytest.raises(ArchiveError, match="Cannot parse URI") as error:
        storage.file_size("s3://KEY:a secret@logs/server.log")

    assert "a secret" not in str(error.value)


def test_what_a_store_refuses_is_told_with_its_reason_and_without_secrets() -> None:
    said = "Failed for 'http://KEY:SECRET@10.0.0.5/box/a?sv=1&sig=S%2F'. Azure Error: [Nope] 403"

    with (
        pytest.raises(OSError, match=r"'http://10\.0\.0\.5/box/a'\. .*\[Nope\]") as error,
        storage.naming("abfs://box@logs.dfs.core.windows.net/a?sig=S%2F"),
    ):
        raise OSError(said)

    assert "abfs://box@logs.dfs.core.windows.net/a" == error.value.filename
    assert "SECRET" not in str(error.value)
    assert "sig" not in str(error.value)


def test_credentials_of_the_wrong_kind_are_an_error_that_names_the_address() -> None:
    with pytest.raises(OSError, match="not permitted"), storage.naming("abfs://logs@box/a"):
        raise pa.ArrowException("Unknown error: a bearer token is not permitted")


@pytest.mark.parametrize(
    "address",
    [
        "abfs://box@logs.dfs.core.windows.net/today/server.log",
        "abfs://logs.blob.core.windows.net/box/today/server.log",
        "abfs://logs@10.0.0.5:10000/box/today/server.log?enable_tls=false",
        "abfs://logs@box/today/server.log",
    ],
)
def test_every_form_of_an_address_of_azure_leads_into_the_container(address: str) -> None:
    assert "box/today/server.log" == storage.open_system(address)[1]


def test_an_address_of_a_kind_that_nobody_reads_says_which_are_read() -> None:
    with pytest.raises(ArchiveError, match="ftp:// is no kind of address"):
        storage.file_size("ftp://logs/server.log")


class Interrupted(io.BytesIO):
    """Gives a part of what it holds, and then Ctrl-C comes."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise KeyboardInterrupt
        return super().read(min(size or 100, 100))


def test_of_an_object_half_is_never_left(bucket: Bucket) -> None:
    store = ObjectStore(bucket.address("half"))
    with pytest.raises(KeyboardInterrupt):
        store.put("stopped", Interrupted(bytes(1000)))

    assert store.size("stopped") is None


def test_an_older_arrow_that_does_not_know_single_puts_opens_s3_too() -> None:
    class OlderFileSystem:
        @staticmethod
        def from_uri(address: str) -> tuple[str, str]:
            if "allow_delayed_open" in address:
                raise ValueError("Unexpected query parameter in S3 URI: 'allow_delayed_open'")
            return address, "root"

    older = SimpleNamespace(FileSystem=OlderFileSystem)

    assert storage._open_by_arrow(older, "s3://b/x?scheme=http") == ("s3://b/x?scheme=http", "root")
