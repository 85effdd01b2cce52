"""From bytes to records: archives, compression, wrappers, and where a record starts."""
