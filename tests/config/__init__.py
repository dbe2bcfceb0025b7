"""The configuration: strict reading and provenance."""
