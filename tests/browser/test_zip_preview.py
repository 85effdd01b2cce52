"""The page where people first meet it: taken out of an archive, or shown by a previewer of one.

A viewer of archives puts the one file into a folder of its own and opens it there. Where artefacts
of builds are kept, the file is shown in a sandboxed frame: it has an origin that is nobody's, no
storage, no clipboard, and browsers refuse to go to any address from it, even within the page.
"""

from __future__ import annotations

import base64
import zipfile
from pathlib import Path

import pytest

from tests.browser.walking import Reader, hover, open_all, read_through

pytestmark = pytest.mark.browser

SHOWS = {
    "blob": "frame.src = URL.createObjectURL(new Blob([bytes], { type: 'text/html' }));",
    "srcdoc": "frame.srcdoc = new TextDecoder().decode(bytes);",
}
VIEWER = """<!doctype html><meta charset="utf-8"><title>report.html in out.zip</title>
<script type="application/octet-stream" id="file">{packed}</script><body><script>
const text = atob(document.getElementById("file").textContent);
const bytes = Uint8Array.from(text, (mark) => mark.charCodeAt(0));
const frame = document.createElement("iframe");
frame.sandbox = "allow-scripts";
frame.style = "width: 100%; height: 95vh; border: 0";
{shows}
document.body.append(frame);
</script>"""
LOADED = "document.readyState === 'complete' && !!document.querySelector('footer')"
STORAGE = "(() => { try { return String(localStorage); } catch (error) { return error.name; } })()"
ON_SCREEN = """(() => {
  const one = document.querySelector("NAME"), box = one?.getBoundingClientRect();
  return !!box && box.height > 0 && box.top < innerHeight && box.bottom > 0;
})()"""
ROW = "document.querySelector('#partitions-table tbody th a')"


@pytest.fixture(params=SHOWS)
def viewer(request: pytest.FixtureRequest, page: Path, tmp_path: Path) -> Path:
    """A page that shows the report in a sandboxed frame."""
    packed = base64.b64encode(page.read_bytes()).decode()
    made = tmp_path / "viewer.html"
    text = VIEWER.replace("{shows}", SHOWS[request.param]).replace("{packed}", packed)
    made.write_text(text, encoding="utf-8")
    return made


def asked(reader: Reader) -> list[str]:
    """Give what was asked for besides the pages themselves."""
    return [one for one in reader.requests if not one.startswith("file:")]


def test_alone_in_a_folder_of_a_viewer_the_page_is_whole(
    reader: Reader, page: Path, tmp_path: Path
) -> None:
    """Nothing lies beside it, and the name of the folder would have to be quoted."""
    packed = tmp_path / "out.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(page.parent.rglob("*")):
            archive.write(one, Path("out") / one.relative_to(page.parent))
    folder = tmp_path / "Rar$EX 100% #1 'ü'"
    with zipfile.ZipFile(packed) as archive:
        alone = Path(archive.extract("out/report.html", folder))

    reader.open(alone, "#F-5f")

    reader.wait(ON_SCREEN.replace("NAME", "#F-5f"))
    assert read_through(reader) >= 5
    assert "could not be drawn" not in reader.run("document.body.innerText")
    assert [one for one in reader.requests if one.partition("#")[0] != alone.as_uri()] == []
    assert reader.complaints == []


def test_in_a_sandboxed_frame_the_page_is_whole_and_silent(reader: Reader, viewer: Path) -> None:
    with reader.framed(viewer) as frame:
        frame.wait(LOADED)
        # Else this would be no such frame, and prove nothing.
        assert frame.run("origin") == "null"
        assert frame.run(STORAGE) == "SecurityError"

        assert read_through(frame) >= 5
        open_all(frame)
        assert hover(frame) > 5
        assert frame.run("document.querySelectorAll('.plot .trace').length") > 5
        assert "could not be drawn" not in frame.run("document.body.innerText")
        assert (asked(frame), frame.complaints) == ([], [])
    assert (asked(reader), reader.complaints) == ([], [])


def test_in_a_sandboxed_frame_links_within_the_page_lead_there(
    reader: Reader, viewer: Path
) -> None:
    """Browsers would refuse: the page goes there by itself."""
    with reader.framed(viewer) as frame:
        frame.wait(LOADED)
        # Where a slow machine scrolls smoothly, there is no end to it.
        frame.run("document.documentElement.style.scrollBehavior = 'auto'")
        frame.run("document.querySelector('#findings a[href=\"#F-1b\"]').click()")
        frame.wait(ON_SCREEN.replace("NAME", "#F-1b.here"))
        frame.wait(
            "(document.querySelector('#figure-timeline')?._fullLayout?.xaxis.range[0] ?? '')"
            ".startsWith('2026-11-18 11:38:43')"
        )
        frame.run("document.querySelector('.skip').click()")
        frame.wait(ON_SCREEN.replace("NAME", "#verdict.here"))
        assert frame.run("document.activeElement.id") == "verdict"

        frame.run(f"{ROW}.click()")
        frame.wait(ON_SCREEN.replace("NAME", ".history"))
        frame.run(f"{ROW}.click()")
        frame.wait("!document.querySelector('.history')")
        frame.run("addresses.go('p/nowhere/1')")
        assert "nowhere" in frame.wait("document.querySelector('#no-such-place')?.innerText")
        assert frame.complaints == []
    assert reader.complaints == []


@pytest.mark.parametrize("viewer", ["blob"], indirect=True)
def test_in_a_sandboxed_frame_one_can_still_copy(reader: Reader, viewer: Path) -> None:
    """There is no clipboard for it; what is selected is copied the old way."""
    with reader.framed(viewer) as frame:
        frame.wait(LOADED)
        frame.run("""document.execCommand = () => {
          window.copied = document.activeElement.value; return true; }""")
        frame.run("""[...document.querySelectorAll("#F-3f2a91c0 button")]
          .find((one) => one.textContent === "Copy").click()""")

        assert frame.wait("window.copied").startswith("kafka-get-offsets.sh")
