"""Random numbers by counter: the same bits for every tiling.

May use `elementwise` and the rooms below it, down to `backend`.
"""
