"""Analysed graph, Mesh -> Plan: tile shapes and block layouts over the devices."""

from infinitensor.partition.choose import MANY_USES, canonical_layout, choose, streamed_cuts

__all__ = ["MANY_USES", "canonical_layout", "choose", "streamed_cuts"]
