"""The session, its locks and counters, and the versions that tensors show.

The lowest room of `api`: it uses none of the others.
"""
