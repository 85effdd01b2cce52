"""Facts that several detectors need, computed once and in one way."""
