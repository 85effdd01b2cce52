"""The states of brokers, controllers and clients over time."""
