"""The shipped detectors: every module here with a `find` is one; its presence is enough."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from forensics.detection.requirements import SERVERS
from forensics.detection.runner import Detector


def detectors() -> Iterator[Detector]:
    """Yield the detectors by name; each names the logs it needs in NEEDS."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        find = getattr(module, "find", None)
        if find is not None:
            about = (module.__doc__ or "").partition("\n")[0]
            yield Detector(module.NAME, find, getattr(module, "NEEDS", SERVERS), about)
