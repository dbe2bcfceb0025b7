"""OLP: one address for all AI subscriptions in a household."""

__version__ = "0.1.0"
