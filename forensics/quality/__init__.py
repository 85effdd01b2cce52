"""Quality: what the tables must fulfil before anybody acts on them."""
