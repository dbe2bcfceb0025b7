"""A demo CLI that speaks Claude Code's stream-json, including scripted failures."""
