"""Real client programs against OLP over the real CLIs, connected by what `olp connect` writes."""
