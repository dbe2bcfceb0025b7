"""Tests of what waits: processes, folders, workers, flights. Real processes, no stand-ins."""
