"""API keys: permissions, usage, and the file format."""
