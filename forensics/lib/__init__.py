"""The ground floor: nothing here knows what a Kafka log means."""
