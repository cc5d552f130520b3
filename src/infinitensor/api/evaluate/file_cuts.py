"""Tiles for files that a program reads and that have none yet: those in which they may stay."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.config import config
from infinitensor.partition import MANY_USES, streamed_cuts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.api.session.version import Node, Version
    from infinitensor.ir.mesh import Mesh


def cut_files(nodes: Sequence[Node], leaves: Sequence[Version], mesh: Mesh) -> None:
    """Give files that are in no tiles yet those in which they are read, and may stay.

    But not what a product reads over and over: that has the tiles of the product, and so what
    stays of it are those. What was evicted in other tiles is in none then.
    """
    if mesh.kind != "cpu":
        return
    files = {id(v): v for v in leaves if v.table is not None and v.table.is_in_files}
    for node in nodes if files else ():
        form = node.call.form
        for given, labels in zip(node.inputs, form.inputs, strict=False):
            uses = prod(n for label, n in enumerate(form.sizes) if label not in labels)
            if node.op.kind == "contraction" and uses >= MANY_USES:
                version = files.pop(id(given), None)
                if version is not None and version.table is not None:
                    version.table = version.table.join() or version.table
    for version in files.values():
        assert version.table is not None
        if not version.table.is_one_file:
            continue
        cuts = streamed_cuts(version.shape, version.dtype.itemsize, mesh, config.tile_elements)
        if any(len(borders) > 2 for borders in cuts):
            version.table = version.table.with_read(cuts, {})
