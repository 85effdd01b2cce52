"""From entries to events: rules, and what they find in a log."""
