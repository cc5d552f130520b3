"""Programs whose tasks C starts by itself.

May use `replay` and the rooms below it, down to `state`.
"""
