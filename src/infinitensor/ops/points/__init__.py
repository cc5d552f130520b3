"""Points and centres: distances, nearest neighbours, spanning trees, statistics of columns."""
