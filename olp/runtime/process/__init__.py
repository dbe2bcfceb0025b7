"""Starting CLIs, reading them, and ending them with everything they started."""
