"""Write a saved postmortem again with pseudonyms instead of names."""

from __future__ import annotations

from pathlib import Path

import click

from forensics.cli.app import (
    OUTPUT,
    QUIET_OPTION,
    SAVED_RUN,
    run_file,
    tell,
)


@click.command()
@click.argument("out", type=SAVED_RUN)
@click.option(
    "-o", "--out", "target", required=True, metavar="OUT2",
    type=OUTPUT, help="Folder or address for the redacted run.",
)  # fmt: skip
@click.option(
    "--redact", "classes", default="all", show_default=True, metavar="CLASS,...",
    help="What to redact: hosts, ips, clients, topics, principals, or all.",
)  # fmt: skip
@click.option(
    "--map", "map_path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The private map of names; default: beside OUT2, as OUT2.redaction-map.json.",
)  # fmt: skip
@QUIET_OPTION
def command(
    out: Path, target: str | Path, classes: str, map_path: Path | None, *, quiet: bool
) -> None:
    """Write a saved postmortem again with pseudonyms instead of names.

    OUT is the output folder of `postmortem`; no log is read, so neither Spark nor Java is needed.
    OUT2 gets the same tables, findings.json and page, with the same numbers, times and epochs, but
    topic-7f3a91c0 instead of the topic's name, and so on, everywhere and each time alike.

    FILE holds which pseudonym is whose, and a key. With the same FILE a name gets the same
    pseudonym in every run; without it nobody can find out a name by trying. Keep it to yourself.

    \b
    Example:
      kafka-forensics redact out -o for-the-vendor
      kafka-forensics redact out -o for-the-vendor --redact clients,principals --map secret.json
    """
    from forensics.redacted_run import parse_classes, redact_saved_run
    from forensics.run_output.remote_folder import open_output, place_name

    if isinstance(target, str) and not map_path:
        raise click.UsageError("OUT2 is in a store: name a file of yours by --map.")
    with open_output(target) as folder:
        redact_saved_run(out, folder, parse_classes(classes), map_path)
        page = f"{place_name(folder)}/report.html"
    if not quiet:
        tell(f"page: {page}")


if __name__ == "__main__":
    run_file(__file__)
