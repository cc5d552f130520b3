"""Analysed graph, Mesh -> Plan: tile shapes and block layouts over the devices."""

from infinitensor.partition.choose import canonical_layout, choose

__all__ = ["canonical_layout", "choose"]
