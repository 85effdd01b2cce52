"""The weekly audit: a store of weeks, each compared with those before it, and its pages.

`store` is the facade: it ingests new logs (`manifest`, `week_events`), builds weeks
(`week_builder`, `week_summary`) and draws their pages (`pages`). One run at a time works on it
(`store`), and its changes take effect at once (`atomic_commit`).

`week_metrics` counts, `coverage_normalisation` makes counts comparable; `recurrence`,
`week_verdict` and `comparison` compare; `notes` are what people write about findings.
"""
