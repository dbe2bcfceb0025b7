"""Processing of answers: stop strings, limits, JSON, forced calls, the cache."""
