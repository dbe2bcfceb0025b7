"""Which hop is tried, what moves a chain on, and what the client is told at its end."""
