"""Commands by which a reader checks on the cluster what a finding says of a log."""

from __future__ import annotations

__all__ = ["check_command"]


def check_command(topic: str, partition: int, epoch: int | None) -> str:
    """Write the command that shows where a leader epoch begins in a log.

    >>> check_command("t", 0, 2)
    'cat LOG_DIR/t-0/leader-epoch-checkpoint   # line "2 OFFSET": where epoch 2 begins'
    """
    what = "EPOCH OFFSET" if epoch is None else f"{epoch} OFFSET"
    since = "each epoch" if epoch is None else f"epoch {epoch}"
    return (
        f'cat LOG_DIR/{topic}-{partition}/leader-epoch-checkpoint   # line "{what}": '
        f"where {since} begins"
    )
