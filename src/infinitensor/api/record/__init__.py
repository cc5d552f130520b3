"""A call becomes a node of the graph. Nothing here computes anything.

May use `evaluate` and the rooms below it, down to `session`.
"""
