"""The public APIs that OLP implements, one package each: JSON in, encoded events out."""
