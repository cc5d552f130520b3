"""Sorting, searching, ranks and quantiles.

May use `random` and the rooms below it, down to `backend`.
"""
