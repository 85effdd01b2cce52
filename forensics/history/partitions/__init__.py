"""The history of each partition: leader epochs and versions of the ISR."""
