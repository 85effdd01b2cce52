"""Print the script by which a shell completes the words of kafka-forensics."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from forensics.cli.app import PROGRAM_NAME, run_file


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes the words of kafka-forensics.

    With it the Tab key completes commands, options, choices and files; and of an output folder that
    stands before it partitions, topics, brokers, findings and tables, of a store its weeks, and the
    ids of rules. The shell asks kafka-forensics itself, which starts neither Spark nor Java for it.

    \b
      bash  into ~/.bashrc:                      eval "$(kafka-forensics completion bash)"
      zsh   into ~/.zshrc, behind its compinit:  eval "$(kafka-forensics completion zsh)"
      fish  kafka-forensics completion fish > ~/.config/fish/completions/kafka-forensics.fish

    \b
    Example:
      kafka-forensics completion bash
      kafka-forensics completion zsh
      kafka-forensics completion fish
    """
    found = get_completion_class(shell)
    assert found is not None
    top = context.find_root().command
    variable = f"_{PROGRAM_NAME}_COMPLETE".replace("-", "_").upper()
    click.echo(found(top, {}, PROGRAM_NAME, variable).source())


if __name__ == "__main__":
    run_file(__file__)
