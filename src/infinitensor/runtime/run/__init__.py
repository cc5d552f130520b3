"""Running a program: its start, its lanes and streams, what is rebuilt after a fault.

May use `native` and the rooms below it, down to `state`.
"""
