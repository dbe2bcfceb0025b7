"""Tests that run the real CLIs, against mock vendors and without a network."""
