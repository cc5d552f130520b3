"""Analysed graph, Mesh -> Plan: tile shapes and block layouts over the devices."""

from infinitensor.partition.choose import canonical_layout, choose, streamed_cuts
from infinitensor.partition.contraction_cuts import MANY_USES, Multiplied, is_in_one_piece
from infinitensor.partition.tile_shape import LEAF_ELEMENTS

__all__ = [
    "LEAF_ELEMENTS",
    "MANY_USES",
    "Multiplied",
    "canonical_layout",
    "choose",
    "is_in_one_piece",
    "streamed_cuts",
]
