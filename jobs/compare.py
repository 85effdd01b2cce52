"""Compare two windows: weeks of a store, stretches of time, or saved postmortems."""

from __future__ import annotations

import json
from pathlib import Path

import click

from forensics.cli.app import (
    JSON_OPTION,
    SAVED_RUN,
    print_any_character,
    run_file,
    tell,
)
from forensics.cli.value_completion import complete_with, week_names


@click.command()
@click.argument("a", metavar="A", shell_complete=complete_with(week_names))
@click.argument("b", metavar="B", shell_complete=complete_with(week_names))
@click.option(
    "--store", type=SAVED_RUN,
    help="The store of `audit` that A and B are weeks or stretches of.",
)  # fmt: skip
@click.option(
    "--html", "target", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Draw it into one self-contained page, too.",
)  # fmt: skip
@JSON_OPTION
def command(a: str, b: str, store: Path | None, target: Path | None, *, as_json: bool) -> None:
    """Compare two windows: is B better, the same or worse than A.

    With --store, A and B are weeks such as 2026-W46, or stretches of time such as
    2026-11-10T00:00..2026-11-12T00:00, in UTC. Without, each is an output folder of `postmortem`:
    its whole window, or OUT@FROM..TO.

    Windows need not be equally long, nor covered equally well: counts stand beside counts for each
    hour that the logs cover. B is called worse only where the logs of A would have shown as much,
    and better only where its own would.

    \b
    Example:
      kafka-forensics compare 2026-W45 2026-W46 --store audit
      kafka-forensics compare before after --html compared.html
      kafka-forensics compare out@2026-11-17..2026-11-18 out@2026-11-18..2026-11-19
    """
    from forensics.errors import ForensicsError
    from forensics.weekly.comparison import compare, comparison_json, comparison_text, load_window
    from forensics.weekly.notes import NO_NOTES, load_notes

    if target and not target.parent.is_dir():
        raise ForensicsError(f"--html {target}: there is no folder {target.parent}; make it first.")
    notes = load_notes(store) if store else NO_NOTES
    found = compare(load_window(a, store), load_window(b, store), notes)
    print_any_character()
    if as_json:
        print(json.dumps(comparison_json(found), indent=1))
    else:
        for line in comparison_text(found):
            tell(line)
    if target:
        from forensics.weekly.pages.comparison_page import draw_comparison

        draw_comparison(found, target)
        click.echo(f"page: {target}", err=as_json)


if __name__ == "__main__":
    run_file(__file__)
