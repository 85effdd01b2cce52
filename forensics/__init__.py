"""Reads archives of Apache Kafka logs and says what happened."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
