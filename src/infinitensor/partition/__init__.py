"""Analysed graph, Mesh -> Plan: tile shapes and block layouts over the devices."""

from infinitensor.partition.choose import canonical_layout, choose, streamed_cuts

__all__ = ["canonical_layout", "choose", "streamed_cuts"]
