"""Which kernel computes a group, and how it is called.

May use `triton` and the rooms below it, down to `c`.
"""
