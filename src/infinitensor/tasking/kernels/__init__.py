"""Which kernel computes a group, and how it is called."""
