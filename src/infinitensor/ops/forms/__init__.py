"""Kinds of ops that others are made of: gathers and reductions over any op.

May use `table` and the rooms below it, down to `backend`.
"""
