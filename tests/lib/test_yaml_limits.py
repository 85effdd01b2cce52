"""A file of rules or settings is bounded, whoever wrote it, and refused by file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.errors import RuleError
from forensics.lib.yaml_with_lines import FileText, load_yaml

BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{below}'] * 10)}]\n"
    for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "alias bomb": (BOMB, "more than 100,000 values"),
    "alias in itself": ("x: 1\na: &a [*a]\n", "page:2: nested more than 100 deep, or an alias"),
    "mapping in itself": ("a: &a\n  b: *a\n", "or an alias that contains itself"),
    "deep brackets": ("a: 1\nb: " + "[" * 100_000, "page:2: nested more than 100 deep"),
    "deep braces": ("a: " + "{a: " * 100_000, "page:1: nested more than 100 deep"),
    "deep dashes": ("- " * 100_000 + "x", "nested more than 100 deep"),
    "deep questions": ("? " * 100_000 + "x", "nested more than 100 deep"),
    "deep blanks": ("\n".join(" " * at + "a:" for at in range(1300)), "page:101: nested"),
    "large": ("a: " + "x" * (2 << 20), "page:1: more than 1 MB"),
    "zero": ("a: 1\nb: \0", "page:2: not readable as YAML: unacceptable character"),
    "surrogate": ('a: "\\ud800"', "not readable as YAML"),
    "no UTF-8": (b"a: \xff", "page:1: not UTF-8"),
    "a tag": ("!!python/object/apply:os.system [id]\n", "a mapping was expected"),
}


def page(text: str | bytes) -> FileText:
    return FileText("page", text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_file_and_line(name: str) -> None:
    text, says = HOSTILE[name]

    with pytest.raises(RuleError) as refused:
        load_yaml(page(text))

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(st.sampled_from("ab:-?[]{}&*!|>'\"#, \n\t%@0"), max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        load_yaml(page(text))
    except RuleError as refused:
        assert str(refused).startswith("page:")  # noqa: PT017 - both ends are right


@given(st.integers(1, 60))
def test_what_is_not_too_deep_is_read(depth: int) -> None:
    assert str(load_yaml(page("a: " + "[" * depth + "]" * depth))["a"]) == "[" * depth + "]" * depth


def test_a_number_of_thousands_of_digits_stays_a_word() -> None:
    assert load_yaml(page("a: " + "9" * 5000)) == {"a": "9" * 5000}


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")

    with pytest.raises(RuleError, match=r"pipe\.yaml:1: this is no file"):
        load_yaml(tmp_path / "pipe.yaml")
