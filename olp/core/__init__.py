"""What OLP decides. Pure and synchronous: no clock, no file, no process; `now` is an argument."""
