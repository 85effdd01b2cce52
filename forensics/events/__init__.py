"""Entries become events: one fact that one log line states."""
