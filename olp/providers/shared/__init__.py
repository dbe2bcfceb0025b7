"""What the drivers of several CLIs have in common."""
