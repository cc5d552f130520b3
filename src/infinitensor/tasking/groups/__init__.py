"""How groups of nodes become families of tasks: one file a kind of group."""
