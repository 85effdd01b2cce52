"""Detectors written in YAML: what to look for in the tables, without a line of Python."""
