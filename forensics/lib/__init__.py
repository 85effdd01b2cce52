"""Helpers that know nothing of Kafka logs."""
