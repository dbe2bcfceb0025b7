"""The warm pool: CLIs started ahead of a request, leased to one, kept or evicted."""
