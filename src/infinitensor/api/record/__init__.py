"""A call becomes a node of the graph. Nothing here computes anything."""
