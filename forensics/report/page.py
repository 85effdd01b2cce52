"""Draws report.html out of one saved run: sections in order, style and script inside.

Draws the page of a run once more: as it was, in another time zone, or for a shorter window.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from forensics.errors import ForensicsError
from forensics.lib import time_zone
from forensics.lib.formatting import time_text
from forensics.lib.secret_patterns import MASK, PLACES
from forensics.lib.time_zone import current_zone
from forensics.report import plotly_sheet, sections, theme
from forensics.report.html import Child, Markup, join, tag, trust_html
from forensics.report.size_budget import gzip_base64
from forensics.report.time_window import WindowedRun, narrow_run, parse_window
from forensics.run_output.reader import RunOutput, load_run

PAGE_NAME = "report.html"
# Scripts of the page's own, in the order in which they run.
SCRIPTS = (
    "inflating.js", "unpacking.js", "figures.js", "quotes.js", "copying.js", "partitions.js",
    "filter.js", "page.js",
)  # fmt: skip
STYLES = ("page.css", "parts.css")
CONTENT_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Section:
    """One part of the page, as its file declares it."""

    id: str
    order: int
    title: str
    render: Callable[[RunOutput], Markup]


def load_sections() -> list[Section]:
    """Give every section that has a file, in page order."""
    every = []
    for module in pkgutil.iter_modules(sections.__path__):
        loaded = importlib.import_module(f"{sections.__name__}.{module.name}")
        every.append(
            Section(
                getattr(loaded, "ANCHOR", module.name), loaded.ORDER, loaded.TITLE, loaded.render
            )
        )
    return sorted(every, key=lambda section: (section.order, section.id))


def draw_report(out: Path, *, shared: bool = False) -> Path:
    """Draw `out/report.html` from what is saved in `out`, and give its path."""
    return render_report(load_run(out), out / PAGE_NAME, shared=shared)


def render_report(run: RunOutput, target: Path, *, shared: bool | str = False) -> Path:
    """Draw a run, or a window of one, as one page, and give its path.

    A page holds all it needs, or, `shared`, has the library of the figures beside it, where the
    pages of other runs find it too.
    """
    with theme.use_broker_colours(run):
        parts = [(section, section.render(run)) for section in load_sections()]
    # A section with nothing to say leaves no heading and no link behind.
    parts = [(section, body) for section, body in parts if body]
    return write_page(
        target,
        "Kafka incident postmortem",
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        _header(parts),
        _finder(),
        _notes(run),
        tag(
            "main",
            join(_part(section, inside) for section, inside in parts),
            data_zone=current_zone().offset or None,
        ),
        tag("footer", _footer(run)),
        _running(run),
        shared=shared,
    )


def _notes(run: RunOutput) -> Markup | None:
    """Say before all else that a page shows less than there is, or time in a peculiar way."""
    zone = current_zone()
    notes = [run.notice] if isinstance(run, WindowedRun) else []
    notes += [zone.note] if zone.label.startswith("UTC") and zone.note else []
    notes += _redacted(run)
    if not notes:
        return None
    lines = (tag("p", note, class_="warning") for note in notes)
    return tag("aside", *lines, aria_label="About this page")


def _redacted(run: RunOutput) -> list[str]:
    told = run.document.get("redaction") or {}
    classes = ", ".join(map(str, told.get("classes") or ()))
    says = f"Redacted: {classes} have pseudonyms here, each the same one everywhere."
    return [says] if classes else []


def write_page(page: Path, title: str, *inside: Child, shared: bool | str = False) -> Path:
    """Write a page around its body, with the style, scripts and policy of every page, and whole.

    `shared` may name the folder of the library, seen from the page's own.
    """
    body = tag("body", *inside, _scripts(shared=shared))
    head = _head(title, shared=shared)
    document = "<!doctype html>\n" + tag("html", head, "\n", body, lang="en") + "\n"
    if shared:
        beside = page.parent / _library(shared)
        if not beside.exists():
            _write(beside, _plotly_js())
    return _write(page, document)


def _write(page: Path, text: str) -> Path:
    half = page.with_name(f".{page.name}.{os.getpid()}")
    half.write_text(text, encoding="utf-8", newline="\n")
    half.replace(page)
    return page


def _head(title: str, *, shared: bool | str) -> Markup:
    sources = [_hash(_asset(name)) for name in SCRIPTS]
    # A file beside the page is of the page's own origin, but has no hash that browsers would ask.
    sources.append("'self'" if shared else _hash(_plotly_js()))
    policy = CONTENT_POLICY.format(scripts=" ".join(sources))
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        # Before anything else can load: what comes ahead of it is not covered by it.
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", trust_html("\n".join(map(_asset, STYLES)))),
    )


def _header(parts: list[tuple[Section, Markup]]) -> Markup:
    links = join(
        tag("li", tag("a", section.title, href=f"#{section.id}")) for section, _ in parts[1:]
    )
    return tag(
        "header",
        tag("h1", "Kafka incident postmortem"),
        tag("nav", tag("ul", links), aria_label="Parts of this page"),
    )


def _finder() -> Markup:
    """Draw the one filter over findings, partitions, brokers and clients; scripts unhide it."""
    return tag(
        "div",
        tag("label", "Filter", for_="find"),
        tag(
            "input", type="search", id="find", autocomplete="off", spellcheck="false",
            aria_describedby="found", placeholder="words, broker:3 topic:orders level>=high",
        ),
        tag("output", id="found", for_="find"),
        role="search", class_="finder", hidden=True,
    )  # fmt: skip


def _part(section: Section, inside: Markup) -> Markup:
    title = f"{section.id}-title"
    heading = tag("h2", section.title, id=title)
    return tag("section", heading, inside, "\n", id=section.id, aria_labelledby=title, tabindex=-1)


def _footer(run: RunOutput) -> Markup:
    schema = run.document.get("schema", "not known")
    zone = current_zone()
    own = "" if zone.is_utc else f" {zone.note} Log lines are quoted as they stand."
    says = f"All times are {zone.label}.{own} Drawn from findings.json, schema {schema}."
    return tag("p", f"{says} Secrets are masked as {MASK}: {PLACES}.")


def _running(run: RunOutput) -> Markup:
    """Name the report on each sheet of paper: sheets of two of them get mixed up on a table."""
    says = f'"Kafka incident postmortem, report {run.short_digest}, page "'
    pages = f'content: {says} counter(page) " of " counter(pages); font: 7pt sans-serif;'
    return tag("style", trust_html(f"@page {{ @bottom-right {{ {pages} }} }}"))


def _scripts(*, shared: bool | str) -> Markup:
    library: dict[str, str] = {"type": "application/gzip", "id": "plotly-js"}
    if shared:
        library["data_file"] = _library(shared)
    return join(
        [
            tag("noscript", tag("p", "The figures need JavaScript; all else reads without it.")),
            tag("script", None if shared else trust_html(_packed()), **library),
            *(tag("script", trust_html(_asset(name))) for name in SCRIPTS),
        ],
        "\n",
    )


def _library(shared: bool | str) -> str:
    return f"{shared}/{_shared_name()}" if isinstance(shared, str) else _shared_name()


def _shared_name() -> str:
    """Name the library after what is in it: a newer one takes no older page's away."""
    return f"plotly.{hashlib.sha256(_plotly_js().encode()).hexdigest()[:12]}.js"


@cache
def _asset(name: str) -> str:
    return (files("forensics.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _plotly_js() -> str:
    return plotly_sheet.plotly_js()


@cache
def _packed() -> str:
    return gzip_base64(_plotly_js())


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def open_output(out: Path) -> RunOutput:
    """Open the output folder of a postmortem, or say what is wrong with it."""
    if not (out / "findings.json").is_file():
        raise ForensicsError(
            f"{out} is no output folder of a postmortem: it has no findings.json. Make one with "
            "kafka-forensics postmortem ARCHIVE... -o OUT."
        )
    try:
        return load_run(out)
    except ValueError as error:
        raise ForensicsError(f"{out / 'findings.json'} is no JSON: {error}.") from error


def redraw_report(  # noqa: PLR0913 - each is an option of its own
    out: Path,
    *,
    since: str | None = None,
    till: str | None = None,
    zone: str = "UTC",
    target: Path | None = None,
    shared: bool = False,
) -> Path:
    """Draw the page of what is saved in `out`, and give its path.

    `shared` leaves the library of the figures in a file beside the page, for many pages together.
    """
    run = open_output(out)
    if target and not target.parent.is_dir():
        message = f"--html {target}: there is no folder {target.parent}; make it first."
        raise ForensicsError(message)
    chosen = time_zone.find_zone(zone, run.window)
    with time_zone.use_zone(chosen):
        if since is not None or till is not None:
            run = narrow_run(run, parse_window(run, since, till))
        page = target or out / _name(run, "" if chosen.is_utc else zone)
        return render_report(run, page, shared=shared)


def _name(run: RunOutput, zone: str) -> str:
    """Name a page after what it shows, so that it takes no other one's place."""
    parts = [time_text(moment) for moment in run.span] if isinstance(run, WindowedRun) else []
    parts += [zone] if zone else []
    if not parts:
        return PAGE_NAME
    words = (re.sub(r"[^A-Za-z0-9+.]+", "-", part.replace(":", ".")) for part in parts)
    return f"report-{'-'.join(words)}.html"
