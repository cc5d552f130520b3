"""Ops on each element by itself.

May use `create` and the rooms below it, down to `backend`.
"""
