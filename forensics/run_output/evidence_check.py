"""Leads what a page cites back to the very lines of the archive, and says where they differ."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from forensics.errors import ForensicsError
from forensics.events.packs import catalogue
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
from forensics.run_output.reader import Evidence, Finding, RunOutput

# Tables cut what they quote; what is shorter than this was not cut, and must be the whole line.
MIN_CUT_BYTES = 230
FILE_AND_LINE = re.compile(r"(?P<file>.+):(?P<line>\d{1,18})", re.DOTALL)


@dataclass(frozen=True)
class CheckedLine:
    """One cited line, and what stands in its place now."""

    evidence: Evidence
    # same: the line that was cited; other: another one; alone: nothing to compare it with;
    # gone: no such line; lost: no such file
    state: str
    message: str
    place: FoundFile | None = None
    line: FoundLine | None = None
    context: tuple[FoundLine, ...] = ()
    command: str | None = None

    @property
    def is_consistent(self) -> bool:
        """Whether nothing contradicts the citation."""
        return self.state in ("same", "alone")


def parse_location(text: str) -> Evidence | None:
    """Read FILE:LINE.

    >>> parsed("logs.tgz!broker-1/server.log:18244").line
    18244
    """
    found = FILE_AND_LINE.fullmatch(text)
    if not found or not int(found["line"]):
        return None
    # As the tables name it: no secret stands in a name.
    return Evidence(NameMasker().mask(found["file"]), int(found["line"]), "")


def find_finding(run: RunOutput, name: str) -> Finding:
    """Find a finding by its id, or by the beginning of one."""
    wanted = name.removeprefix("#").lower()
    known = {finding.id.lower(): finding for finding in run.findings}
    if wanted in known:
        return known[wanted]
    near = [one for key, one in known.items() if key.startswith(wanted) or key[2:] == wanted]
    if len(near) == 1:
        return near[0]
    every = ", ".join(finding.id for finding in (near or run.findings)[:8]) or "none at all"
    what = "several begin so" if near else "there is no such finding"
    raise ForensicsError(f"{visible(name)}: {what} in {run.folder}; its findings: {every}.")


def check_evidence(
    run: RunOutput | None, proofs: Sequence[Evidence], archives: Sequence[str], context: int
) -> list[CheckedLine]:
    """Look every cited line up in the archives, and compare it with what was quoted."""
    wanted: dict[str, list[int]] = {}
    for proof in proofs:
        wanted.setdefault(proof.file, []).append(proof.line or 1)
    found = look_up_lines(plan_reading(archives), wanted, context)
    judge = _Judge(run)
    return [judge.cited(proof, found[proof.file], context) for proof in proofs]


class _Judge:
    """Compares lines with what was quoted of them; reads a file again only where it must."""

    def __init__(self, run: RunOutput | None) -> None:
        self._run = run
        self._read: dict[str, tuple[str, bytes]] = {}

    def cited(self, proof: Evidence, places: Sequence[FoundFile], context: int) -> CheckedLine:
        if not places:
            return CheckedLine(proof, "lost", "no file of these archives has this name")
        if not proof.text and self._run:
            proof = _quoted(self._run, proof)
        answers = [self._judged(proof, place, context) for place in places]
        return next((one for one in answers if one.state == "same"), answers[0])

    def _judged(self, proof: Evidence, place: FoundFile, context: int) -> CheckedLine:
        number = proof.line or 1
        line = place.lines.get(number)
        if line is None:
            has = f"the file has {place.count:,} lines" if place.count is not None else ""
            why = place.damaged or has or "it is not there"
            return CheckedLine(proof, "gone", f"there is no such line: {why}", place)
        around = tuple(
            place.lines[near]
            for near in range(number - context, number + context + 1)
            if near in place.lines
        )
        split = place.location.split
        first = max(1, number - context)
        shown = shell_command(split.path, place.location.steps, first, number + context)
        state, says = self._compared(proof, place, line)
        renamed = place.location.file != proof.file
        says += f"; the file is now called {visible(place.location.file)}" if renamed else ""
        return CheckedLine(proof, state, says, place, line, around, shown)

    def _compared(self, proof: Evidence, place: FoundFile, line: FoundLine) -> tuple[str, str]:
        if proof.text and _is_quote(proof.text, line.text):
            return "same", "the line that was cited"
        digest = self._digest(proof)
        if not proof.text and not digest:
            return "alone", "nothing was saved of it to compare it with"
        now, head = self._again(place)
        if digest == now:
            return (
                "same",
                "the line that was cited: the file is byte for byte the one that was read",
            )
        if proof.text and _is_quote(proof.text, _unwrapped(line.text, head)):
            return "same", "the line that was cited, in its wrapper"
        if proof.text:
            return "other", "NOT the line that was cited: the file has changed since, or is another"
        return (
            "other",
            "NOT sure to be the line that is meant: the file is not the one that was read",
        )

    def _digest(self, proof: Evidence) -> str | None:
        if self._run is None:
            return None
        mine = (row for row in self._run.files if row["file"] == proof.file)
        return next((row["sha256"] for row in mine if not row["damaged"]), None)

    def _again(self, place: FoundFile) -> tuple[str, bytes]:
        name = f"{place.location.split.path}\0{place.location.file}"
        if name not in self._read:
            self._read[name] = digest_and_head(place.location)
        return self._read[name]


def _quoted(run: RunOutput, proof: Evidence) -> Evidence:
    """Fill in what the table of events says of a line, where it tells of it at all."""
    here = (ds.field("file") == proof.file) & (ds.field("line") == proof.line)
    rows: list[dict[str, Any]] = run.rows("events", ["text", "rule"], here)
    fullest = max(rows, key=lambda row: len(row["text"] or ""), default=None)
    if fullest is None:
        return proof
    return Evidence(proof.file, proof.line, fullest["text"] or "", fullest["rule"])


def _is_quote(text: str, line: bytes) -> bool:
    """Whether a text is a line, or the beginning of a long one."""
    # Secrets are masked in what is quoted; both are, since a run may be older than that.
    whole, quote = (mask_text(_readable(one)) for one in (line.decode("utf-8", "replace"), text))
    # Tables cut bytes, so the last character may be half of one.
    start = quote.rstrip("\ufffd")
    return quote == whole or (len(quote.encode()) >= MIN_CUT_BYTES and whole.startswith(start))


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().lstrip("\ufeff").rstrip()


def _unwrapped(line: bytes, head: bytes) -> bytes:
    """Take a line out of what Docker, Kubernetes and others wrap around it."""
    wrapping = detect_wrappers(head, _signatures())
    if wrapping is None:
        return line
    opened = wrapping.unwrap(find_lines(line, final=True), torn_before=False)
    if not len(opened):
        return line
    return bytes(opened.data[int(opened.starts[0]) : int(opened.ends[0])].tobytes())


@functools.cache
def _signatures() -> tuple[Signature, ...]:
    return tuple(group_signatures(group_layouts(catalogue().layouts)))
