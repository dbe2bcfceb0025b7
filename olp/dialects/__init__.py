"""The public APIs that OLP speaks, one file each: JSON in, events out as bytes."""
