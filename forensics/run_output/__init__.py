"""The output folder of a run: tables and findings.json, written and read."""
