"""From records to entries: time, level, logger and message."""
