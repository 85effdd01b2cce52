"""What holds for every test: the same run tries the same examples, and none is too slow."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")
