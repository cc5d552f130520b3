"""The table of ops and the words their kernels are written in.

May use the room `backend` below it.
"""
