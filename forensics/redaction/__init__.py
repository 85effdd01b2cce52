"""A run with other names in it: pseudonyms instead of hosts, addresses, clients, topics, people."""
