"""Tests of the part that waits."""
