"""The session, its locks and counters, and the versions that tensors show. The lowest row."""
