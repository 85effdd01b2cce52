"""Commands by which a reader checks on the cluster what a finding says of a log."""

from __future__ import annotations

from forensics.incidents.commands import Commands

__all__ = ["check_command"]

# Logs that tell of leader epochs were written by versions that keep them in a file.
_ANY = Commands((3, 0), kraft=False)


def check_command(topic: str, partition: int, epoch: int | None) -> str:
    """Write the command that shows where a leader epoch begins in a log.

    >>> check_command("t", 0, 2)
    'cat LOG_DIR/t-0/leader-epoch-checkpoint   # line "2 OFFSET": where epoch 2 begins'
    """
    return _ANY.leader_epochs(topic, partition, epoch)
