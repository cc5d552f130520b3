"""Programs that have little room: what they keep beside what was asked for.

And what tensors in lower tiers give back of the device memory that they take only to be read less.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.api.session.version import Version
from infinitensor.memory import places

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from infinitensor.api.session.version import Node

LITTLE_BUDGET_PART = 32
"""Values of less than this part of the budget are kept."""
CHEAP = 8
"""Values of less than this part of the bytes read to make them are kept too."""
AT_MOST = 4
"""The part of the budget that may be kept so."""


def worth_keeping(
    nodes: Sequence[Node],
    leaves: Sequence[Version],
    versions: Iterable[Version],
    budget: int,
    again: Container[Version],
) -> set[int]:
    """The identities of the versions that are kept though there is little room.

    What was made before, and not kept (`again`), is kept the second time, if it fits.
    """
    streamed = [version for version in leaves if comes_from_lower_tier(version)]
    bits = {id(version): 1 << k for k, version in enumerate(streamed)}
    made: dict[int, int] = {}
    for node in nodes:
        mask = 0
        for given in node.inputs:
            if type(given) is Version:
                before = given.node
                mask |= bits.get(id(given), 0) if before is None else made.get(id(before), 0)
        made[id(node)] = mask
    found = set()
    left = budget // AT_MOST
    for version in versions:
        n_bytes = bytes_of(version)
        mask = made.get(id(version.node), 0)
        read = sum(bytes_of(leaf) for k, leaf in enumerate(streamed) if mask >> k & 1)
        is_cheap = LITTLE_BUDGET_PART * n_bytes <= budget or CHEAP * n_bytes <= read
        if n_bytes <= left and (is_cheap or (version in again and n_bytes < read)):
            left -= n_bytes
            found.add(id(version))
    return found


def comes_from_lower_tier(leaf: Version) -> bool:
    """Whether it is read from a lower tier, or was and has all stayed."""
    table = leaf.table
    return table is not None and (table.is_file or table.layout.is_in_lower_tier)


def bytes_of(version: Version) -> int:
    """Bytes of the values."""
    return prod(version.shape) * version.dtype.itemsize


def spare_leaves(leaves: Iterable[Version]) -> list[Version]:
    """The leaves of which something stays in device memory only to be read less."""
    return [v for v in leaves if v.table is not None and v.table.spare_bytes]


def give_back(leaves: Iterable[Version], n_bytes: int) -> None:
    """Let go of the last tiles to stay of some leaves, until so many bytes are free."""
    for version in spare_leaves(leaves):
        table = version.table
        assert table is not None
        order, spares = places(table.layout.n_tiles), table.spares()
        gone = set()
        for k in sorted(spares, key=lambda k: -order[k]):
            if n_bytes <= 0:
                break
            n_bytes -= spares[k]
            gone.add(k)
        version.table = table.without(gone)
        version.host = None
        if n_bytes <= 0:
            break
