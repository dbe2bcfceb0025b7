"""Who asks: the key file, and the people it names with their limits."""
