"""The command line: commands parse arguments, call the code below, and print."""
