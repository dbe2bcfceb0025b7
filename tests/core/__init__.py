"""What OLP decides: pure, with `now` as an argument."""
