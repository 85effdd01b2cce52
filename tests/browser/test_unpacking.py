"""What is packed in the page is unpacked the same by the browser, and by the page itself."""

from __future__ import annotations

import base64
import random
import zlib
from pathlib import Path

import pytest

from tests.browser.chromium import Failed, Tab

pytestmark = pytest.mark.browser

SHUFFLED = random.Random(5)
TEXTS = {
    "nothing": b"",
    "one letter": b"a",
    "the same again and again": b"ab" * 40_000,
    "words": b" ".join(SHUFFLED.choices([b"leader", b"epoch", b"isr", b"42", b"\xc3\xa9"], k=9000)),
    "nothing that packs": bytes(SHUFFLED.choices(range(128), k=70_000)),
}
PLAIN, FIXED = zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED


def gzipped(text: bytes, level: int, strategy: int) -> str:
    packer = zlib.compressobj(level, zlib.DEFLATED, 31, 9, strategy)
    return base64.b64encode(packer.compress(text) + packer.flush()).decode()


@pytest.mark.parametrize(("level", "strategy"), [(0, PLAIN), (1, PLAIN), (9, PLAIN), (9, FIXED)])
@pytest.mark.parametrize("name", TEXTS)
def test_all_kinds_of_blocks(tab: Tab, page: Path, name: str, level: int, strategy: int) -> None:
    tab.open(page)
    packed = gzipped(TEXTS[name], level, strategy)

    assert TEXTS[name].decode() == tab.run(f"unpacking.now('{packed}')")


def test_the_library_comes_out_letter_by_letter(tab: Tab, page: Path) -> None:
    tab.open(page)
    packed = "document.getElementById('plotly-js').textContent"

    assert tab.run(f"unpacking.text({packed}).then((text) => text === unpacking.now({packed}))")


def test_a_browser_that_cannot_unpack_draws_all_the_same(tab: Tab, page: Path) -> None:
    tab.call(
        "Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.DecompressionStream"
    )
    tab.open(page)

    assert "undefined" == tab.run("typeof DecompressionStream")
    tab.wait("document.querySelector('.plot .main-svg')")
    assert [] == tab.complaints


@pytest.mark.parametrize("cut", [4, 20, 300])
def test_what_is_damaged_is_not_taken_for_text(tab: Tab, page: Path, cut: int) -> None:
    tab.open(page)
    whole = base64.b64decode(gzipped(TEXTS["words"], 9, PLAIN))
    broken = base64.b64encode(whole[:-cut]).decode()

    with pytest.raises(Failed, match=r"damaged|RangeError"):
        tab.run(f"unpacking.now('{broken}')")
