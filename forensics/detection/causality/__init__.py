"""Cause chains: which finding may have led to which."""
