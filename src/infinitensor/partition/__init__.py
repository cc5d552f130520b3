"""Analysed graph, Mesh -> Plan: tile shapes and block layouts over the devices."""

from infinitensor.partition.choose import canonical_layout, choose, streamed_cuts
from infinitensor.partition.contraction_cuts import MANY_USES
from infinitensor.partition.tile_shape import LEAF_ELEMENTS

__all__ = ["LEAF_ELEMENTS", "MANY_USES", "canonical_layout", "choose", "streamed_cuts"]
