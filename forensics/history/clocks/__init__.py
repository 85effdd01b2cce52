"""The clocks of the nodes: offsets, drift and steps against one reference."""
