"""What a hostile client, model or CLI tries, against a server process of its own."""
