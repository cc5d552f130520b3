"""Running a program: its start, its workers and streams, what is rebuilt after a fault."""
