"""Access control: the key file, and its users with their limits."""
