"""Quality: what the tables must fulfil before anybody acts on them."""

from __future__ import annotations

from forensics.quality.gate import check

__all__ = ["check"]
