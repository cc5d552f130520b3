"""Calls that were seen before run without being looked up again.

May use `convert` and the rooms below it, down to `session`.
"""
