"""Code shared by the drivers of several CLIs."""
