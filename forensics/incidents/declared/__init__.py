"""Detectors written in YAML: what to look for in the tables, without a line of Python."""

from __future__ import annotations

from forensics.incidents.declared.language import Declared, Sample, load
from forensics.incidents.declared.running import detector

__all__ = ["Declared", "Sample", "detector", "load"]
