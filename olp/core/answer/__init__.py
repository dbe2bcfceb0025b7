"""What OLP itself does to an answer: stop strings, limits, JSON, forced calls, the cache."""
