"""What stands between head and message is taken off; what belongs to messages is not."""

from __future__ import annotations

import re

import pytest

from forensics.ingest.message_columns import LinePattern, leads_with_column

WORDS = ("started", "stopped now", "Topic x: deleted", "a - b", "no (reason)", "[a=1] x", "y", "z")


def is_kafka(text: str) -> bool:
    return "Kafka" in text


def messages(front: str, back: str = "") -> list[str]:
    return [f"{front}{word}{back}" for word in WORDS]


def read_rests(rests: list[str], shown: str = "") -> list[str]:
    """Return the messages of lines by the pattern that is made of them."""
    pattern = LinePattern(shown=shown, has_logger=True, rests=list(rests))
    pattern.strip_columns(is_kafka, after_logger=True)
    pattern.add_message()
    found = [re.fullmatch(pattern.source, rest) for rest in rests]
    return [match["message"] for match in found if match]


@pytest.mark.parametrize(
    ("front", "back"),
    [
        (" - ", ""), ("] : ", ""), ("run:17 - ", ""), ("(main) ", ""), ("{} - ", ""),
        ("[] [main] ", ""),
        ("[main]: ", ""), ('thread="a b" msg="', '"'), ("thread: a, message: ", ""), ('"', '"'),
        (" <> <1> <", ">"), ("Any.java:3: ", ""), (": ", " [] []"),
    ],
)  # fmt: skip
def test_columns_are_taken_off(front: str, back: str) -> None:
    assert read_rests(messages(front, back)) == list(WORDS)


@pytest.mark.parametrize("sign", ["\t", ";", "|"])
def test_a_sign_that_stood_between_fields_ends_a_column(sign: str) -> None:
    assert read_rests(messages(f"a b{sign}"), shown=f"%d{sign}%p{sign}") == list(WORDS)
    assert read_rests(messages(f"a b{sign}"), shown="%d %p ") == messages(f"a b{sign}")


@pytest.mark.parametrize(
    "rests",
    [
        messages(""), [f"[Broker id={number}] {word}" for number, word in enumerate(WORDS)],
        [f"Error: {number}" for number in range(20)], ['"a"', "b", "c"] * 5,
    ],
)  # fmt: skip
def test_messages_keep_what_is_theirs(rests: list[str]) -> None:
    assert read_rests(rests) == rests
    assert not leads_with_column(rests, is_kafka)


def test_a_column_that_names_loggers_stays_for_the_logger() -> None:
    rests = messages("[KafkaServer] ")
    pattern = LinePattern(rests=list(rests))
    pattern.strip_columns(is_kafka, after_logger=False)

    assert (pattern.source, pattern.rests) == ("", rests)
