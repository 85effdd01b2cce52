"""From events to history: clocks, broker states, leader epochs and the ISR."""
