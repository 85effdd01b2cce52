"""What holds for every test: the same run tries the same examples, and none is too slow."""

from __future__ import annotations

import os
import sys

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")

# PySpark takes a main module without a file for a doctest, and ends the process. The workers of
# pytest-xdist have such a one.
if "PYTEST_XDIST_WORKER" in os.environ:
    sys.modules["__main__"].__file__ = __file__
