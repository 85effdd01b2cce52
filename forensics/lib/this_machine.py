"""What this machine and its system give a process; macOS says some of it in another way."""

from __future__ import annotations

import gc
import os
import resource
import sys

# Objects that are made until Python looks for garbage.
_SELDOM = (100_000, 50, 100)


def usable_cores() -> int:
    """Return on how many cores this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def collect_garbage_seldom() -> None:
    """Let Python look for garbage in circles seldom: rules, rows and findings hold next to none.

    Looking takes a fifth to a third of the time of whatever makes many objects.
    """
    gc.set_threshold(*_SELDOM)


def peak_memory() -> int:
    """Return the most memory that this process has held, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts kilobytes, macOS bytes.
    return most if sys.platform == "darwin" else most << 10
