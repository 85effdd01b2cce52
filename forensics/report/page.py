"""Draw report.html from the output folder of a run: all of it, or one time window, in any zone.

The page is one file: the sections in their order, styles, scripts and figures inside.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, partial
from importlib.resources import files
from itertools import chain
from pathlib import Path

from forensics.errors import ForensicsError
from forensics.lib import time_zone
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.secret_patterns import MASK, PLACES
from forensics.lib.storage import write_atomically
from forensics.lib.text_format import join_names, natural_key, time_text
from forensics.lib.time_zone import Zone, current_zone, use_zone
from forensics.report import theme
from forensics.report.cluster_facts import read_cluster_facts
from forensics.report.headline import page_title
from forensics.report.html import Child, Markup, join, section, section_links, tag, trust_html
from forensics.report.plotly_sheet import shorten_name
from forensics.report.sections import (
    appendix,
    blind_spots,
    brokers,
    clients,
    clocks,
    controller,
    coverage,
    data_loss,
    findings,
    incident_story,
    leadership,
    partitions,
    quality,
    review_form,
    timeline,
    verdict,
)
from forensics.report.size_budget import gzip_base64
from forensics.report.time_window import WindowedRun, narrow_run, parse_window
from forensics.run_output.reader import RunOutput, load_run, open_run

PAGE_NAME = "report.html"
# plotly.js with what the figures use of it, and its licence beside it.
LIBRARY = "plotly-cartesian.min.js"
# Scripts of the page's own, in the order in which they run.
SCRIPTS = (
    "unpacking.js", "figures.js", "quotes.js", "copying.js", "partitions.js",
    "filter.js", "page.js",
)  # fmt: skip
STYLES = ("page.css", "parts.css")
CONTENT_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)
# Every section in the order of the page, by the anchor that links go to.
SECTIONS = {
    "verdict": verdict,
    "timeline": timeline,
    "happened": incident_story,
    "findings": findings,
    "ledger": data_loss,
    "partitions": partitions,
    "swimlanes": leadership,
    "clients": clients,
    "brokers": brokers,
    "controller": controller,
    "clocks": clocks,
    "coverage": coverage,
    "unseen": blind_spots,
    "quality": quality,
    "review": review_form,
    "appendix": appendix,
}
# What stands open; of a clear run the rest is folded, too.
OPEN = ("verdict", "timeline", "happened", "findings", "ledger", "partitions", "clients", "brokers")
OPEN_WHEN_CLEAR = ("verdict", "timeline")
# What is on paper; the rest is printed when somebody asks for all of it.
PRINTED = ("verdict", "timeline", "happened", "findings", "ledger")


# What takes long is drawn first where two processes draw: who has the last one should be done soon.
_LONGEST = (
    "timeline", "happened", "unseen", "appendix", "partitions", "verdict", "brokers", "findings",
)  # fmt: skip
# Of fewer events a page is drawn before another process has loaded what it draws with.
_MANY_EVENTS = 50_000


def draw_report(out: Path, *, shared: bool = False, second: SecondProcess = ALONE) -> Path:
    """Draw `out/report.html` from what is saved in `out`, and return its path."""
    return render_report(partial(load_run, out), out / PAGE_NAME, shared=shared, second=second)


def render_report(
    load: Callable[[], RunOutput],
    target: Path,
    *,
    shared: bool | str = False,
    second: SecondProcess = ALONE,
) -> Path:
    """Draw a run, or a window of one, as one page, and return its path.

    The page holds all that it needs. If `shared`, the library of the figures is in a file beside
    it, where the pages of other runs find it too. Of many events, `second` draws a part of the
    sections, and loads the run once more.
    """
    order = [*_LONGEST, *(anchor for anchor in SECTIONS if anchor not in _LONGEST)]
    work = _Sections(load, order, current_zone())
    run = work.run
    if not second.is_there or run.count_rows("events") < _MANY_EVENTS:
        second = ALONE
    bodies = dict(chain.from_iterable(second.share(len(order), work)))
    # A section with nothing to say leaves no heading and no link behind.
    parts = [
        (anchor, section.TITLE, bodies[anchor])
        for anchor, section in SECTIONS.items()
        if bodies[anchor]
    ]
    shown = OPEN if run.incidents else OPEN_WHEN_CLEAR
    cluster = read_cluster_facts(run)
    return write_page(
        target,
        page_title(run, str(cluster)),
        tag("a", "Skip to the summary", href="#verdict", class_="skip"),
        _header(run, parts, str(cluster)),
        _notes(run),
        tag(
            "main",
            *(
                section(
                    anchor,
                    title,
                    body,
                    "\n",
                    folded=anchor not in shown,
                    printed=anchor in PRINTED,
                )
                for anchor, title, body in parts
            ),
            data_zone=current_zone().offset or None,
        ),
        tag("footer", _footer(run)),
        tag(
            "p",
            "On paper: the summary, the timeline, causes, findings and losses. \u201cPrint "
            "everything\u201d at the end of report.html prints all of it.",
            class_="paper-only",
        ),
        number_sheets(f"Kafka postmortem, report {run.short_digest}"),
        shared=shared,
    )


@dataclass(frozen=True)
class _Sections:
    """Draws those sections whose numbers it is given."""

    load: Callable[[], RunOutput]
    order: Sequence[str]
    zone: Zone

    @cached_property
    def run(self) -> RunOutput:
        """What is drawn: another process loads it by itself."""
        return self.load()

    def __getstate__(self) -> dict[str, object]:
        """Hand on how to load the run: its findings may be a hundred megabytes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(self, numbers: Iterator[int]) -> list[tuple[str, Markup]]:
        """Return sections by their anchors."""
        drawn = []
        with use_zone(self.zone), theme.use_broker_colours(self.run):
            for number in numbers:
                anchor = self.order[number]
                drawn.append((anchor, SECTIONS[anchor].render(self.run)))
        return drawn


def _notes(run: RunOutput) -> Markup | None:
    """Say before all else that a page shows less than there is, another time zone or pseudonyms."""
    zone = current_zone()
    notes = [run.notice] if isinstance(run, WindowedRun) else []
    notes += [zone.note] if zone.label.startswith("UTC") and zone.note else []
    redaction = run.document.get("redaction") or {}
    if classes := ", ".join(map(str, redaction.get("classes") or ())):
        notes.append(f"Redacted: {classes} have pseudonyms here, each the same one everywhere.")
    if not notes:
        return None
    lines = (tag("p", note, class_="warning") for note in notes)
    return tag("aside", *lines, aria_label="About this page")


def write_page(page: Path, title: str, *inside: Child, shared: bool | str = False) -> Path:
    """Write a page around its body, with the styles, scripts and policy of every page.

    `shared` may name the folder of the library, relative to the folder of the page.
    """
    body = tag("body", *inside, _scripts(shared=shared))
    head = _head(title, shared=shared)
    document = "<!doctype html>\n" + tag("html", head, "\n", body, lang="en") + "\n"
    if shared:
        library = page.parent / _library_path(shared)
        if not library.exists():
            _write(library, _asset(LIBRARY))
    _write(page, document)
    return page


def _write(path: Path, text: str) -> None:
    with write_atomically(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _head(title: str, *, shared: bool | str) -> Markup:
    sources = [_hash(_asset(name)) for name in SCRIPTS]
    # Browsers ask no hash of a file beside the page: it is of the page's own origin.
    sources.append("'self'" if shared else _hash(_asset(LIBRARY)))
    policy = CONTENT_POLICY.format(scripts=" ".join(sources))
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        # First of all: the policy does not cover what stands before it.
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", trust_html("\n".join(map(_asset, STYLES)))),
    )


def _header(run: RunOutput, parts: list[tuple[str, str, Markup]], cluster: str) -> Markup:
    links = section_links((anchor, title) for anchor, title, _ in parts)
    whose = f" of {names}" if (names := _input_names(run)) else ""
    parts_of_title = [f"Kafka postmortem{whose}", _period(run), cluster]
    title = tag("h1", " \u00b7 ".join(part for part in parts_of_title if part))
    return tag("header", title, _finder(), links)


def _input_names(run: RunOutput) -> str:
    """Name the archives, or the folders, that were read: two pages open side by side look alike."""
    names = {re.split("[!/]", str(row["file"] or ""), maxsplit=1)[0] for row in run.files}
    shown = [shorten_name(name) for name in sorted(names - {""}, key=natural_key)]
    return join_names(shown, 2)


def _period(run: RunOutput) -> str:
    """Say from when to when the logs reach: many archives are called logs.tar.gz."""
    if not run.window:
        return ""
    start, end = (time_text(moment)[:16] for moment in run.window)
    if start[:10] != end[:10]:
        return f"{start[:10]} to {end[:10]}"
    return f"{start}\u2013{end[11:]}" if start != end else start


def _finder() -> Markup:
    """Draw the one filter over findings, partitions, brokers and clients; scripts unhide it."""
    return tag(
        "div",
        tag("label", "Filter", for_="find"),
        tag(
            "input", type="search", id="find", autocomplete="off", spellcheck="false",
            aria_describedby="found", placeholder="words, broker:3 level>=high",
        ),
        tag("output", id="found", for_="find"),
        role="search", class_="finder", hidden=True,
    )  # fmt: skip


def _footer(run: RunOutput) -> Markup:
    schema = run.document.get("schema", "not known")
    zone = current_zone()
    own = "" if zone.is_utc else f" {zone.note} Log lines are quoted as they stand."
    text = f"All times are {zone.label}.{own} Drawn from findings.json, schema {schema}."
    return tag("p", f"{text} Secrets are masked as {MASK}: {PLACES}.")


def number_sheets(name: str) -> Markup:
    """Name the page on each sheet of paper: sheets of two of them get mixed up on a table.

    A name of our own: nothing of a log may stand in a style.
    """
    pages = f'content: "{name}, page " counter(page) " of " counter(pages); font: 7pt sans-serif;'
    return tag("style", trust_html(f"@page {{ @bottom-right {{ {pages} }} }}"))


def _scripts(*, shared: bool | str) -> Markup:
    library: dict[str, str] = {"type": "application/gzip", "id": "plotly-js"}
    if shared:
        library["data_file"] = _library_path(shared)
    return join(
        [
            tag("noscript", tag("p", "The figures need JavaScript; all else reads without it.")),
            tag("script", None if shared else trust_html(_packed_library()), **library),
            *(tag("script", trust_html(_asset(name))) for name in SCRIPTS),
        ],
        "\n",
    )


def _library_path(shared: bool | str) -> str:
    """Name the library after its content: a newer one does not replace that of an older page."""
    name = f"plotly.{hashlib.sha256(_asset(LIBRARY).encode()).hexdigest()[:12]}.js"
    return f"{shared}/{name}" if isinstance(shared, str) else name


@cache
def _asset(name: str) -> str:
    return (files("forensics.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _packed_library() -> str:
    return gzip_base64(_asset(LIBRARY))


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def redraw_report(  # noqa: PLR0913 - each is an option of its own
    out: Path,
    *,
    since: str | None = None,
    till: str | None = None,
    zone: str = "UTC",
    target: Path | None = None,
    shared: bool = False,
) -> Path:
    """Draw the page of a saved run in another zone or for a shorter window; return its path."""
    run = open_run(out)
    if target and not target.parent.is_dir():
        message = f"--html {target}: there is no folder {target.parent}; make it first."
        raise ForensicsError(message)
    chosen = time_zone.find_zone(zone, run.window)
    with time_zone.use_zone(chosen):
        if since is not None or till is not None:
            run = narrow_run(run, parse_window(run, since, till))
        page = target or out / _page_name(run, "" if chosen.is_utc else zone)
        return render_report(lambda: run, page, shared=shared)


def _page_name(run: RunOutput, zone: str) -> str:
    """Name a page after what it shows, so that it does not replace another one."""
    parts = [time_text(moment) for moment in run.span] if isinstance(run, WindowedRun) else []
    parts += [zone] if zone else []
    if not parts:
        return PAGE_NAME
    words = (re.sub(r"[^A-Za-z0-9+.]+", "-", part.replace(":", ".")) for part in parts)
    return f"report-{'-'.join(words)}.html"
