"""The pure parts of the HTTP server."""
