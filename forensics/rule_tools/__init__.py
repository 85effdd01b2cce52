"""Tools for people who write rules: check, explain, document. No scan needs them."""
