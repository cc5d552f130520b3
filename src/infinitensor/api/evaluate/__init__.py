"""Waiting calls become a program: bound to stored tensors, planned, run, and explained.

May use `eager` and the rooms below it, down to `session`.
"""
