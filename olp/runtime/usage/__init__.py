"""The usage store: request log, traces, counters and reports. No content."""
