"""The tests, in the order of the tree that they test."""

from hypothesis import settings

# A laptop under load is no reason for a red test: no time limit for a single example.
settings.register_profile("olp", deadline=None)
settings.load_profile("olp")
