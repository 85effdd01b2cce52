"""Every saved table becomes one page, and every finding one row of findings.json."""
