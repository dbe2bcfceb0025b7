"""The HTTP layer. Knows the public APIs; knows no provider and makes no routing decision."""
