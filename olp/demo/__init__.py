"""A stand-in CLI that speaks Claude Code's stream-json, scriptable failures included."""
