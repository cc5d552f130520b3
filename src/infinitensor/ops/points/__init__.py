"""Points and centres: distances, nearest neighbours, spanning trees, statistics of columns.

May use `reduce` and the rooms below it, down to `backend`.
"""
