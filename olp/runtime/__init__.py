"""Where OLP waits: the only package with a clock, a process, a file or an await."""
