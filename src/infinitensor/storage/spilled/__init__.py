"""Tiles that left memory, each a file with checksums."""
