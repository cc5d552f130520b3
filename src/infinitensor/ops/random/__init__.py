"""Random numbers by counter: the same bits for every tiling."""
