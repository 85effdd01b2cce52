"""Finds cited lines in the archive again, and compares them with what was quoted."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.dataset as ds

from forensics.errors import ForensicsError
from forensics.events.packs import load_rule_set
from forensics.ingest.line_lookup import (
    FoundFile,
    FoundLine,
    digest_and_head,
    look_up_lines,
    shell_command,
)
from forensics.ingest.read_plan import plan_reading
from forensics.ingest.record_starts import Signature, find_lines
from forensics.ingest.wrapper_detection import detect_wrappers
from forensics.lib.secrets import NameMasker, mask_text
from forensics.lib.text_safety import visible
from forensics.parsing.entries import group_layouts, group_signatures
from forensics.run_output.reader import Evidence, RunOutput, SavedFinding

# Tables cut long quotes, to no less than this; a shorter quote must be the whole line.
MIN_CUT_BYTES = 230
FILE_AND_LINE = re.compile(r"(?P<file>.+):(?P<line>\d{1,18})", re.DOTALL)


@dataclass(frozen=True)
class CheckedLine:
    """A cited line, and what stands in its place now."""

    evidence: Evidence
    # same: the cited line; other: another line; alone: nothing to compare with; gone: no such
    # line; lost: no such file
    state: str
    message: str
    place: FoundFile | None = None
    line: FoundLine | None = None
    context: tuple[FoundLine, ...] = ()
    command: str | None = None

    @property
    def is_consistent(self) -> bool:
        """Return True if nothing contradicts the citation."""
        return self.state in ("same", "alone")


def parse_location(text: str) -> Evidence | None:
    """Read FILE:LINE.

    >>> parse_location("logs.tgz!broker-1/server.log:18244").line
    18244
    """
    match = FILE_AND_LINE.fullmatch(text)
    if not match or not int(match["line"]):
        return None
    # Secrets in names are masked in the tables.
    return Evidence(NameMasker().mask(match["file"]), int(match["line"]), "")


def find_finding(run: RunOutput, name: str) -> SavedFinding:
    """Find a finding by its id, or by the begin of an id."""
    wanted = name.removeprefix("#").lower()
    by_id = {finding.id.lower(): finding for finding in run.findings}
    if wanted in by_id:
        return by_id[wanted]
    near = [one for key, one in by_id.items() if key.startswith(wanted) or key[2:] == wanted]
    if len(near) == 1:
        return near[0]
    known = ", ".join(finding.id for finding in (near or run.findings)[:8]) or "none at all"
    problem = "several begin so" if near else "there is no such finding"
    raise ForensicsError(f"{visible(name)}: {problem} in {run.folder}; its findings: {known}.")


def check_evidence(
    run: RunOutput | None, evidence: Sequence[Evidence], archives: Sequence[str], context: int
) -> list[CheckedLine]:
    """Look the cited lines up in the archives, and compare them with what was quoted."""
    wanted: dict[str, list[int]] = {}
    for cited in evidence:
        wanted.setdefault(cited.file, []).append(cited.line or 1)
    places = look_up_lines(plan_reading(archives), wanted, context)
    checker = _Checker(run)
    return [checker.check(cited, places[cited.file], context) for cited in evidence]


class _Checker:
    """Compares lines with quotes; reads a file again only if the line alone does not decide."""

    def __init__(self, run: RunOutput | None) -> None:
        self._run = run
        self._digests: dict[str, tuple[str, bytes]] = {}

    def check(self, cited: Evidence, places: Sequence[FoundFile], context: int) -> CheckedLine:
        if not places:
            return CheckedLine(cited, "lost", "no file of these archives has this name")
        if not cited.text and self._run:
            cited = _with_quote(self._run, cited)
        checked = [self._check_at(cited, place, context) for place in places]
        return next((line for line in checked if line.state == "same"), checked[0])

    def _check_at(self, cited: Evidence, place: FoundFile, context: int) -> CheckedLine:
        number = cited.line or 1
        line = place.lines.get(number)
        if line is None:
            length = f"the file has {place.count:,} lines" if place.count is not None else ""
            why = place.damaged or length or "it is not there"
            return CheckedLine(cited, "gone", f"there is no such line: {why}", place)
        first, last = max(1, number - context), number + context
        around = tuple(place.lines[near] for near in range(first, last + 1) if near in place.lines)
        shell = shell_command(place.location.split.path, place.location.steps, first, last)
        state, message = self._compare(cited, place, line)
        if place.location.file != cited.file:
            message += f"; the file is now called {visible(place.location.file)}"
        return CheckedLine(cited, state, message, place, line, around, shell)

    def _compare(self, cited: Evidence, place: FoundFile, line: FoundLine) -> tuple[str, str]:
        if cited.text and _is_quote(cited.text, line.text):
            return "same", "the line that was cited"
        digest = self._saved_digest(cited)
        if not cited.text and not digest:
            return "alone", "nothing was saved of it to compare it with"
        now, head = self._digest_and_head(place)
        if digest == now:
            same = "the line that was cited: the file is byte for byte the one that was read"
            return "same", same
        if not cited.text:
            other = "NOT sure to be the line that is meant: the file is not the one that was read"
            return "other", other
        if _is_quote(cited.text, _unwrap(line.text, head)):
            return "same", "the line that was cited, in its wrapper"
        return "other", "NOT the line that was cited: the file has changed since, or is another"

    def _saved_digest(self, cited: Evidence) -> str | None:
        rows = self._run.files if self._run else ()
        digests = (
            row["sha256"] for row in rows if row["file"] == cited.file and not row["damaged"]
        )
        return next(digests, None)

    def _digest_and_head(self, place: FoundFile) -> tuple[str, bytes]:
        name = f"{place.location.split.path}\0{place.location.file}"
        if name not in self._digests:
            self._digests[name] = digest_and_head(place.location)
        return self._digests[name]


def _with_quote(run: RunOutput, cited: Evidence) -> Evidence:
    """Add the text and the rule of a line from the table of events, if it is there."""
    is_cited = (ds.field("file") == cited.file) & (ds.field("line") == cited.line)
    rows = run.rows("events", ["text", "rule"], is_cited)
    fullest = max(rows, key=lambda row: len(row["text"] or ""), default=None)
    if fullest is None:
        return cited
    return Evidence(cited.file, cited.line, fullest["text"] or "", fullest["rule"])


_REWRITTEN = re.compile(
    r"^\[~?[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8},[0-9]{6}Z?\] \S+ "
    r"(?P<message>.+?)(?: \([\w.$-]+\))?$"
)


def _is_quote(text: str, line: bytes) -> bool:
    """Return True if a text is a line, or the begin of a long one."""
    # Quotes are masked; mask both, since an older run may not have been.
    whole, quote = (mask_text(_readable(one)) for one in (line.decode("utf-8", "replace"), text))
    # Tables cut bytes, so that the last character may be half of one.
    start = quote.rstrip("\ufffd")
    cut = len(quote.encode()) >= MIN_CUT_BYTES
    if quote == whole or (cut and whole.startswith(start)):
        return True
    # A record whose layout was found in the file is quoted as Kafka would have written it.
    record = _REWRITTEN.match(start)
    return record is not None and record["message"].strip() in whole


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().lstrip("\ufeff").rstrip()


def _unwrap(line: bytes, head: bytes) -> bytes:
    """Take a line out of the wrapper that Docker, Kubernetes and others put around it."""
    wrapping = detect_wrappers(head, _signatures())
    if wrapping is None:
        return line
    opened = wrapping.unwrap(find_lines(line, final=True), torn_before=False)
    if not len(opened):
        return line
    return bytes(opened.data[int(opened.starts[0]) : int(opened.ends[0])].tobytes())


@functools.cache
def _signatures() -> tuple[Signature, ...]:
    return tuple(group_signatures(group_layouts(load_rule_set().layouts)))
