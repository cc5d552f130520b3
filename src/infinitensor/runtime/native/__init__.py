"""Programs whose tasks C starts by itself, and the threads, of Python and of C, that work.

May use `replay` and the rooms below it, down to `state`.
"""
