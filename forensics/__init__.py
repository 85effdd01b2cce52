"""Reads archives of Apache Kafka logs and says what happened."""

from __future__ import annotations

__version__ = "0.1.0"
