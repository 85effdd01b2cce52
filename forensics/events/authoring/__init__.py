"""What helps people to write, read and judge rules; no scan needs any of it."""
