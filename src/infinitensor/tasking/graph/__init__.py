"""The task graph: tasks, edges between them, the scratch memory they need."""
