"""Tests of what is told to those who connect a client."""
