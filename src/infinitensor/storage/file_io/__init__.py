"""Reads and writes of bytes: past the page cache, strided, with checksums.

The lowest room of `storage`: it uses none of the others.
"""
