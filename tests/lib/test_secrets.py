"""No secret survives, nothing else is touched, and no line takes long."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from forensics.events.packs import load_rule_set
from forensics.lib.secret_patterns import MASK
from forensics.lib.secrets import NameMasker, mask_column, mask_lines, mask_text
from tests.canaries import CANARIES, FIXED, HARMLESS

SECRET = "hunter2Zq8"
KEY = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIB", "c2hvcnQ=", "-----END RSA PRIVATE KEY-----"]


def test_there_are_forty_kinds() -> None:
    """The fewer there are, the less the tests below say."""
    assert len(CANARIES) >= 40


@pytest.mark.parametrize("kind", CANARIES)
def test_a_secret_is_masked_in_the_midst_of_a_line(kind: str) -> None:
    line = f"[2026-11-18 11:38:26,904] WARN {CANARIES[kind]} (com.acme.Payments)"

    shown = mask_text(line.replace("§", SECRET))

    assert SECRET not in shown
    assert MASK in shown
    # What a layout reads the line by is still there, and masking again changes nothing.
    assert shown.startswith("[2026-11-18 11:38:26,904] WARN ")
    assert shown.endswith(" (com.acme.Payments)")
    assert mask_text(shown) == shown


@pytest.mark.parametrize("secret", FIXED)
def test_a_secret_is_known_by_its_looks(secret: str) -> None:
    assert mask_text(f"got {secret} from bob") == f"got {MASK} from bob"


@pytest.mark.parametrize("line", HARMLESS)
def test_what_is_no_secret_stays(line: str) -> None:
    assert mask_text(line) == line


def test_no_line_that_a_rule_knows_is_changed() -> None:
    """Whatever Kafka and its clients write is read as it was."""
    lines = [example.line for rule in load_rule_set().rules for wording in rule.wordings
             for example in wording.examples]  # fmt: skip
    shown = mask_column(pa.array(lines)).to_pylist()

    assert [(one, other) for one, other in zip(lines, shown, strict=True) if one != other] == []


def test_columns_keep_their_type_their_nulls_and_broken_bytes() -> None:
    raw = pa.array([b"password=x", None, b"\xff token=y"], pa.binary())

    assert mask_column(raw).to_pylist() == [b"password=***", None, b"\xff token=***"]
    assert mask_column(pa.array([None, "plain"], pa.string())).to_pylist() == [None, "plain"]


def test_nothing_stays_nothing() -> None:
    assert mask_lines([]) == []
    assert mask_text("") == ""


def test_half_a_surrogate_pair_is_no_obstacle() -> None:
    assert mask_text("\udcff pwd=x") == r"\xff pwd=***"


@pytest.mark.parametrize(("first", "last"), [(0, 4), (1, 4), (0, 3), (1, 3)])
def test_a_private_key_of_many_lines_is_masked_wherever_one_looks_in(first: int, last: int) -> None:
    """Of lines from its middle nobody can tell what they are, unless one end of it is there."""
    shown = mask_lines(["before", *KEY[first:last], "after"] if first == 0 else KEY[first:last])

    assert len(shown) == last - first + (2 if first == 0 else 0)
    if (first, last) != (1, 3):
        assert not {"MIIEpAIB", "c2hvcnQ="} & set(shown)


@pytest.mark.parametrize(
    "line",
    [
        "password" * 8000, "password=" * 7000, "://a:" * 13000,
        "-----BEGIN PRIVATE KEY-----" * 2300,
        'password="' * 6500, "a" * 65000 + "=", "password " * 7000, "Cookie: a=b;" * 5000,
        "LoginModule required a=b " * 2600, '"' * 30000 + "\\" * 30000, "<password" * 7000,
    ],
)  # fmt: skip
def test_hostile_lines_take_no_time(line: str) -> None:
    begun = time.perf_counter()
    mask_lines([line])

    assert time.perf_counter() - begun < 2


def test_names_of_files_stay_apart() -> None:
    names = NameMasker()

    assert names.mask("logs/token=x.log") == "logs/token=***"
    assert names.mask("logs/token=y.log") == "logs/token=***#2"
    assert names.mask("logs/token=x.log") == "logs/token=***"
    # A name that was masked before, as a part of another one, stays what it is.
    assert names.mask("logs/token=***#2!b/server.log") == "logs/token=***#2!b/server.log"


@pytest.mark.parametrize("text", ["token=abc", "a/token=\u00e9", "x" * 300 + " password=abc"])
def test_short_and_long_texts_are_masked_alike(text: str) -> None:
    assert mask_text(text) == text[: text.index("=") + 1] + "***"
