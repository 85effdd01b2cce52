"""Writes a run with pseudonyms in place of hosts, addresses, clients, topics and principals."""
