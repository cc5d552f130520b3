"""Reads and writes of bytes: past the page cache, strided, with checksums."""
