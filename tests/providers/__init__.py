"""The CLIs: launches, and drivers on recorded transcripts."""
