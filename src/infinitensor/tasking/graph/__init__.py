"""The task graph: tasks, edges between them, the scratch memory they need.

May use `kernels` and the rooms below it, down to `c`.
"""
