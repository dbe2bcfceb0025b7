"""Speaks HTTP. Knows the public APIs; knows no provider and decides nothing about chains."""
