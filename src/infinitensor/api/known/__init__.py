"""Calls that were seen before run without being looked up again; may use tensors and all below."""
