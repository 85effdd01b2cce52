"""Templates: text as the log has it, with holes that have a type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.lib.log_templates import TYPES, TemplateError, compile_template

PRINTABLE = st.text(st.characters(min_codepoint=32, exclude_characters="{}\x7f"), min_size=1)


def read(template: str, text: str) -> dict[str, str] | None:
    """Read one text the way the scan does, with RE2."""
    lines = pa.array([text.encode()], pa.binary())
    (row,) = pc.extract_regex(lines, compile_template(template).pattern).to_pylist()
    values: dict[str, Any] | None = row
    return values and {name: value.decode() for name, value in values.items()}


@given(PRINTABLE)
def test_text_between_holes_means_itself(text: str) -> None:
    """No character of a message has a meaning for the pattern."""
    compiled = compile_template(text + "{count:int}")

    assert compiled.literals == (text,)
    assert read(compiled.source, text + "7") == {"count": "7"}
    assert read(compiled.source, "x" + text + "7") is None


def test_the_last_dash_parts_topic_and_partition() -> None:
    assert read("[{:tp}]", "[my-topic-2-13]") == {"topic": "my-topic-2", "partition": "13"}


@pytest.mark.parametrize("topic", ["a", "__consumer_offsets", "A.b_c-d", "-", "1-1", "." * 249])
def test_every_topic_name_that_kafka_allows_is_read(topic: str) -> None:
    assert read("{:tp}", f"{topic}-0") == {"topic": topic, "partition": "0"}


@pytest.mark.parametrize(
    ("kind", "taken", "left"),
    [
        ("text", ["", "any thing"], ["two\nlines"]),
        ("rest", ["", "two\nlines"], []),
        ("letters", ["INFO", "warn"], ["", "-", "a1", "two words"]),
        ("id", ["gU8hQAvZQBq0NiJzRDeJmA", "Some(a-b_c)", "-1"], ["", "two words", "a,b", "[a]"]),
        ("word", ["INFO", "a-b.c"], ["", "two words", "a,b", "(a)"]),
        ("int", ["0", "-1", "9" * 18], ["", "1.5", "--1", "0x1"]),
        ("digit", ["7"], ["", "77", "a"]),
        ("peer", ["broker-1:9092", "[fe80::1]:9092: refused"], ["", "broker-1", "amqp://q:1"]),
        ("tens", ["7", "77"], ["", "777", "a"]),
        ("hundreds", ["777", "12345"], ["", "77", "a"]),
        ("seconds", ["1.5", "20,03", "100.0"], ["", "0.5", "20", ".5", "1.", "-1.5"]),
        ("ints", ["", "1", "1,2", "[1, 2]", "List(1, 2)", "Set()", "-1"], ["a", "1;2", "[a]"]),
        ("maybe", ["None", "Some(3)", "Optional[3]", "Optional.empty", "-1", "4"], ["", "Some(x)"]),
        ("spaces", [" ", "   "], ["", "\t", "a"]),
        ("uptime", ["", "1.234: ", "20,03: "], ["1: ", "1.5", "-1.5: ", "a"]),
        (
            "collection",
            ["[GC (Allocation Failure)", "{Heap before GC", "Application time: 1.5 seconds"],
            ["", "GC", "Total time", "application time: 1"],
        ),
        ("indent", ["", "\t", "  ", "kafka | \t"], ["a", "a "]),
        ("logger", ["kafka.log.Log$", "a_b-c"], ["", "a b", "(a)"]),
        ("place", ["", ":7", ":1024", ":%L", ":?"], [":", "7", ":a"]),
        ("topic", ["a.b_c-d"], ["", "a b", "ä", "a/b"]),
        ("folder", ["/", "/data/kafka 1"], ["", "data", "/a]", "/a\nb"]),
    ],
)
def test_a_type_takes_what_it_says_and_nothing_else(
    kind: str, taken: list[str], left: list[str]
) -> None:
    template = f"<{{x:{kind}}}>"

    assert [read(template, f"<{text}>") for text in taken] == [{"x": text} for text in taken]
    assert [read(template, f"<{text}>") for text in left] == [None] * len(left)


def test_every_type_has_been_tried_here() -> None:
    """A new type wants a row above."""
    marks = test_a_type_takes_what_it_says_and_nothing_else.pytestmark  # type: ignore[attr-defined]

    assert {row[0] for row in marks[0].args[1]} == set(TYPES)


def test_a_hole_without_a_name_is_not_kept() -> None:
    assert read("{:int} of {total:int}", "3 of 7") == {"total": "7"}


def test_a_hole_without_a_type_takes_as_little_text_as_it_can() -> None:
    assert read("{a} - {b}", "x - y - z") == {"a": "x", "b": "y - z"}


def test_blanks_at_the_end_of_a_message_do_not_matter() -> None:
    assert read("done {n:int}", "done 3 \r") == {"n": "3"}


def test_braces_around_a_hole_stay_braces() -> None:
    assert read("{{topic:topic}={error:word}}", "{orders=NONE}") == {
        "topic": "orders",
        "error": "NONE",
    }


def test_the_longest_text_is_the_one_to_look_for() -> None:
    assert compile_template("[{a}] updated to {b} by").longest_literal == "] updated to "
    assert compile_template("{a}").longest_literal == ""


def test_a_layout_brings_a_type_of_its_own() -> None:
    assert compile_template("{x:time}", {"time": "[0-9]{4}"}).fields == ("x",)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{x:integer}", "there is no type 'integer' (in {x:integer}); the types are collection"),
        ("{x} {x:int}", "the name 'x' stands twice; write {:int} for a part that is not kept"),
    ],
)
def test_a_template_that_makes_no_sense_says_what_to_write(template: str, says: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(template)

    assert str(caught.value).startswith(says)


def test_topic_and_partition_may_not_stand_twice_either() -> None:
    with pytest.raises(TemplateError, match="the name 'topic' stands twice"):
        compile_template("{:tp} {topic}")
