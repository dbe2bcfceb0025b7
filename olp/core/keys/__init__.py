"""People's keys: what they permit, what they have used, and how they are written down."""
