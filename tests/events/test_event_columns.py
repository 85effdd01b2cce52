"""What was captured becomes the type of its column; nonsense becomes null, and nothing is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.events.event_columns import decode_text, parse_column
from forensics.schemas import IDS

INT32 = st.integers(-(2**31), 2**31 - 1)
# A number in a list may have nine digits, as no broker id in the field has more.
IDENTITIES = st.integers(-999_999_999, 999_999_999)
WRAPPED = st.sampled_from(["{}", "Some({})", "Optional[{}]", "OptionalInt[{}]", " {} "])
LISTED = st.sampled_from(["{}", "[{}]", "List({})", "Set({})", "ArrayBuffer({})"])


def captured(*values: str | bytes | None) -> pa.Array:
    return pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary())


@given(st.lists(st.tuples(INT32, WRAPPED), max_size=20))
def test_a_number_is_read_however_it_is_wrapped(values: list[tuple[int, str]]) -> None:
    column = captured(*(form.format(value) for value, form in values))

    assert parse_column(column, pa.int32()).to_pylist() == [value for value, _ in values]


@given(st.lists(st.integers(-(10**17), 10**17)))
def test_a_number_too_large_for_its_column_is_null(values: list[int]) -> None:
    column = captured(*map(str, values))

    narrow = [value if -(2**31) <= value < 2**31 else None for value in values]
    assert parse_column(column, pa.int32()).to_pylist() == narrow
    assert parse_column(column, pa.int64()).to_pylist() == values


@pytest.mark.parametrize("nothing", ["None", "Optional.empty", "OptionalInt.empty", "", "-", None])
def test_no_number_is_null(nothing: str | None) -> None:
    assert parse_column(captured(nothing, "7"), pa.int32()).to_pylist() == [None, 7]


@given(
    st.lists(st.none() | st.tuples(st.lists(IDENTITIES), LISTED, st.sampled_from([",", ", "]))),
)
def test_a_list_is_read_however_it_is_bracketed(
    values: list[tuple[list[int], str, str] | None],
) -> None:
    column = captured(
        *(one and one[1].format(one[2].join(map(str, one[0]))) for one in values),
    )

    assert parse_column(column, IDS).to_pylist() == [one and one[0] for one in values]


@given(st.lists(st.none() | st.binary(max_size=20), max_size=10))
def test_no_bytes_at_all_can_stop_a_conversion(values: list[bytes | None]) -> None:
    column = captured(*values)

    for wanted in (pa.int32(), pa.int64(), IDS, pa.string()):
        result = parse_column(column, wanted)
        assert (len(result), result.type) == (len(values), wanted)
        assert all(
            got is None for got, one in zip(result.to_pylist(), values, strict=True) if one is None
        )


@given(st.lists(st.none() | st.text(max_size=20)))
def test_text_stays_what_it_is(values: list[str | None]) -> None:
    assert decode_text(captured(*values)).to_pylist() == values


def test_what_is_not_utf_8_is_replaced_and_its_neighbours_are_left_alone() -> None:
    assert decode_text(captured(b"a\xffb", "ü", None)).to_pylist() == ["a�b", "ü", None]
