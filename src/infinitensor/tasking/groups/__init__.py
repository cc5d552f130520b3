"""How groups of nodes become families of tasks: one file a kind of group.

May use `graph` and the rooms below it, down to `c`.
"""
