"""OLP: one address for every AI subscription in the house."""

__version__ = "0.1.0"
