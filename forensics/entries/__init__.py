"""Records become entries: layouts, times, loggers, and who wrote them."""
