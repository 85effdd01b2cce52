"""Whatever a log holds, no sink lets it out."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from forensics.lib import text_safety
from forensics.report.html import anchor, tag

# Every character there is, halves of surrogate pairs too.
ANY = st.text(st.characters())
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


@given(ANY)
def test_text_cannot_open_a_tag(text: str) -> None:
    """Between tags neither bracket nor hidden character is left."""
    out = text_safety.escape_html(text)

    assert not set("<>") & set(out)
    assert not HIDDEN.search(out)
    assert out.encode("utf-8") or not text


@given(ANY)
def test_an_attribute_cannot_be_left(text: str) -> None:
    """No quote, bracket or line end stands in an attribute."""
    assert not set("<>\"'\n\t") & set(text_safety.escape_attr(text))


@given(ANY)
def test_a_label_has_no_markup(text: str) -> None:
    """Plotly finds no tag, and no entity that it would turn into one."""
    out = text_safety.escape_plotly(text)

    assert not set("<>\n") & set(out)
    assert re.sub(r"&(amp|lt|gt|#36|#37);", "", out).count("&") == 0


@given(st.dictionaries(ANY, ANY | st.integers() | st.none()))
def test_json_in_a_script_is_json_and_cannot_close_it(value: dict[str, object]) -> None:
    """Its keys read back the same, but for halves of pairs."""
    out = text_safety.script_json(value)

    assert not set("<>&\u2028\u2029") & set(out)
    assert not HIDDEN.search(out)
    whole = all(text.encode("utf-8", "replace").decode() == text for text in map(str, [*value]))
    if whole:
        assert set(json.loads(out)) == set(value)


@given(ANY)
def test_an_anchor_is_a_plain_word(text: str) -> None:
    """A fragment id never needs quoting."""
    assert re.fullmatch(r"[A-Za-z0-9_-]*", anchor(text))


def test_codes_are_shown_not_dropped() -> None:
    """A reader sees that something was there."""
    assert text_safety.visible("a\x1b[0m\u202eb\x00") == "a⟨U+001B⟩[0m⟨U+202E⟩b⟨U+0000⟩"
    assert text_safety.visible("héllo 世界 ✓\n\t") == "héllo 世界 ✓\n\t"


def test_a_plain_string_is_escaped_and_markup_is_not() -> None:
    """Only what this package built is taken as HTML."""
    inner = tag("b", "1 < 2")

    assert tag("p", inner, "<i>", title='"') == '<p title="&quot;"><b>1 &lt; 2</b>&lt;i&gt;</p>'
