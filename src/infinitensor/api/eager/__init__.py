"""Whole arrays at once, without a plan: little work, or work that one call of NumPy does.

May use the room `session` below it.
"""
