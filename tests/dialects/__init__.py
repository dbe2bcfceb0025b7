"""The public APIs: bodies in, bytes out."""
