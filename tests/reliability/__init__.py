"""The bars of reliability that one machine can show: faults, load, bad input, same bits."""
