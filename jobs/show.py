"""Show the lines that a finding rests on, as they stand in the archive."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forensics.cli.app import JSON_OPTION, OUTPUT, print_any_character, run_file, style_output
from forensics.cli.value_completion import complete_with, finding_names

if TYPE_CHECKING:
    from forensics.ingest.line_lookup import FoundLine
    from forensics.run_output.evidence_check import CheckedLine
    from forensics.run_output.reader import Evidence, SavedFinding


# How much of a line is shown; it may have megabytes.
LONGEST = 2000
DIFFERS = 1


@click.command()
@click.argument("what", metavar="FINDING|FILE:LINE", shell_complete=complete_with(finding_names))
@click.option(
    "-o", "--out", default="out", show_default=True, metavar="OUT",
    type=OUTPUT,
    help="The output folder of the postmortem.",
)  # fmt: skip
@click.option(
    "--archive", "archives", multiple=True, metavar="ARCHIVE", type=click.Path(),
    help="What the postmortem has read: a folder, a log or an archive; may be repeated.",
)  # fmt: skip
@click.option(
    "-C", "--context", default=5, show_default=True, type=click.IntRange(0, 10_000),
    metavar="LINES", help="How many lines to show before and after each.",
)  # fmt: skip
@JSON_OPTION
def command(
    what: str, out: str | Path, archives: tuple[str, ...], context: int, *, as_json: bool
) -> None:
    """Show the lines that a finding rests on, as they stand in the archive.

    FINDING is an id such as F-3f2a91c0; FILE:LINE is a place as the page names it, which may stand
    without a finding, too. Each line is read from the archive anew, in any form that `postmortem`
    reads, even when the archive was unpacked, renamed or packed again since. If it is not the line
    that was cited, that is said, and the exit code is 1.

    Below each line: where it begins in the unpacked file, its SHA-256 without the line break, and
    a command that shows the same without this program. Secrets are masked as ***.

    Without --archive the lines are shown as the postmortem has quoted them. With --json they are a
    list of objects; `state` says of each whether it is the one that was cited (same) or not.

    \b
    Example:
      kafka-forensics show F-3f2a91c0 --archive logs.tar.gz
      kafka-forensics show F-3f2a91c0 --out out --archive broker-1/ --archive clients.zip -C 20
      kafka-forensics show 'logs.tar.gz!broker-1/server.log:18244' --archive logs.tar.gz
    """
    from forensics.errors import ForensicsError
    from forensics.run_output.evidence_check import check_evidence, find_finding, parse_location
    from forensics.run_output.reader import open_run
    from forensics.run_output.remote_folder import local_folder

    print_any_character()
    place = parse_location(what)
    if place and not archives:
        raise ForensicsError(f"Say where {what} is to be read: --archive ARCHIVE.")
    # A line can be read without a postmortem; then there is nothing to compare it with.
    folder = local_folder(str(out))
    saved = open_run(folder) if not place or (folder / "findings.json").is_file() else None
    proofs: tuple[Evidence, ...] = (place,) if place else ()
    if saved and not place:
        finding = find_finding(saved, what)
        proofs = finding.evidence
        if not as_json:
            _head(finding)
    if not archives:
        _quotes(proofs, as_json=as_json)
        return
    found = check_evidence(saved, proofs, archives, context)
    _tell(found, as_json=as_json)
    wrong = sum(not cited.is_consistent for cited in found)
    if wrong:
        click.echo(f"{wrong} of {len(found)} could not be led back to the archive.", err=True)
        sys.exit(DIFFERS)


def _tell(found: Sequence[CheckedLine], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_told(cited) for cited in found], indent=1, ensure_ascii=False))
        return
    for number, cited in enumerate(found, 1):
        _print(cited, f"{number} of {len(found)}  " if len(found) > 1 else "")


def _head(finding: SavedFinding) -> None:
    from forensics.lib.text_format import count, span_text

    _say(f"{finding.id}  {finding.severity}  {finding.title}", bold=True)
    _say(
        f"{finding.detector}, confidence {finding.confidence}, "
        f"{span_text(finding.start_ms, finding.end_ms)}, "
        f"{count(len(finding.evidence), 'line')} of evidence"
    )
    print()


def _quotes(proofs: tuple[Evidence, ...], *, as_json: bool) -> None:
    if as_json:
        rows = [{"file": one.file, "line": one.line, "text": one.text} for one in proofs]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for proof in proofs:
        _say(f"{proof.file}:{proof.line}", fg="cyan")
        _say(f"  {proof.text}")
    _say("As quoted in findings.json; --archive ARCHIVE shows them where they stand.", fg="yellow")


def _told(cited: CheckedLine) -> dict[str, object]:
    """Return what is shown of a line, as JSON can hold it."""
    from forensics.lib.secrets import mask_lines

    proof, line = cited.evidence, cited.line
    texts = mask_lines([_text(one) for one in cited.context])
    around = [
        {"line": one.number, "text": text} for one, text in zip(cited.context, texts, strict=True)
    ]
    plain = _plainly(cited.command)
    here = [one["text"] for one in around if line and one["line"] == line.number]
    return {
        "file": proof.file,
        "line": proof.line,
        "rule": proof.rule,
        "state": cited.state,
        "says": cited.message,
        "text": here[0] if here else None,
        "offset": line and line.offset,
        "bytes": line and line.size,
        "sha256": line and line.sha256,
        "command": plain.removeprefix("$ ") if line and plain.startswith("$ ") else None,
        "around": around,
    }


def _print(cited: CheckedLine, number: str) -> None:
    proof, line = cited.evidence, cited.line
    read_by = f"  (read by {proof.rule})" if proof.rule else ""
    _say(f"{number}{proof.file}:{proof.line}{read_by}", fg="cyan", bold=True)
    for row in _rows(cited):
        print(row)
    verdict = {"fg": "green"} if cited.state == "same" else {"fg": "red", "bold": True}
    _say(f"  {cited.message}", **verdict)
    if not cited.is_consistent and proof.text:
        _say(f"  cited: {_cut(proof.text)}")
    if line:
        _say(f"  byte {line.offset}, {line.size} bytes, sha256 {line.sha256}")
    if cited.place and cited.place.location.steps[-1:] == (("utf-16", ""),):
        _say("  the file is UTF-16; offset, size and sha256 are of its text in UTF-8")
    if line:
        _say(f"  {_plainly(cited.command)}")
    print()


def _plainly(command: str | None) -> str:
    from forensics.lib.secrets import mask_text

    if command is None:
        return "no plain command reads an archive in a zip; unpack that first"
    return f"$ {command}" if command == mask_text(command) else "a secret stands in the file's name"


def _rows(cited: CheckedLine) -> Iterator[str]:
    from forensics.lib.secrets import mask_lines

    width = len(str(cited.context[-1].number)) if cited.context else 0
    texts = mask_lines([_text(line) for line in cited.context])
    for line, shown in zip(cited.context, texts, strict=True):
        is_it = line.number == (cited.line.number if cited.line else 0)
        text = f"{'>' if is_it else ' '} {line.number:{width}}  {_cut(shown)}"
        yield _painted(text, bold=True) if is_it else _painted(text, dim=True)


def _text(line: FoundLine) -> str:
    return line.text.decode("utf-8", "replace").rstrip("\r")


def _cut(text: str) -> str:
    more = len(text) - LONGEST
    return text if more <= 0 else f"{text[:LONGEST]} ... and {more:,} more characters"


def _say(text: str, **style: object) -> None:
    print(_painted(text, **style))


def _painted(text: str, **style: object) -> str:
    """Show control characters by their code, so that no terminal obeys them, and add colour."""
    from forensics.lib.text_safety import visible

    plain = visible(text).replace("\n", "⟨U+000A⟩")
    return style_output(plain, **style)


if __name__ == "__main__":
    run_file(__file__)
