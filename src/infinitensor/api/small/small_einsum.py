"""`einsum` of one or two small tensors at once, where it is a sum or a product of matrices.

The bits are those of plans: sums have their order, and matrices are multiplied by the library that
plans multiply with (`small_products.h`), as they are stored. What it would have to copy first, and
anything else, is recorded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from infinitensor.api.record.late import late
from infinitensor.api.small import small_calls
from infinitensor.api.small.host_values import kernel_input, small_tensor, tensors
from infinitensor.config import config


class Product(NamedTuple):
    """An einsum as a product: the axes of both operands in the order of stacks of matrices."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    vectors: tuple[bool, bool]
    """Which of them are vectors in a stack: matrices of one row, or of one column."""
    is_reversed: bool
    """Whether what is multiplied is the second by the first."""
    order: tuple[int, ...] | None
    """The axes of what is made, in the order of the result; None: as they are."""
    pairs: tuple[tuple[int, int], ...]
    """Axes of the first and of the second operand that have one length."""


def einsum_now(args: Any, options: Any) -> Any:
    """The result of an einsum that is small; None: record it."""
    if options or not 2 <= len(args) <= 3 or type(args[0]) is not str:
        return None
    x, y = args[1], args[-1]
    if not config.small_elements or type(x) is not tensors[0] or type(y) is not tensors[0]:
        return None
    if len(args) == 2:
        axes = _summed_axes(args[0], len(x._shape)) if x._dtype.kind in "fc" else None
        return None if axes is None else late.public["sum"](x, axis=axes)
    unneeded = _summed_before(args[0], len(x._shape), len(y._shape))
    if unneeded is not None:
        return _sum_first(x, y, *unneeded)
    how = _product_of(args[0], len(x._shape), len(y._shape))
    if how is None or any([x._shape[i] != y._shape[j] for i, j in how.pairs]):
        return None
    session = x._owner or x._cell.session
    if session is not (y._owner or y._cell.session):
        return None
    a, b = kernel_input(x), kernel_input(y)
    if a is None or b is None:
        return None
    a, b = a.transpose(how.first), b.transpose(how.second)
    is_row, is_column = how.vectors
    if is_row:
        a = a[..., None, :]
    if is_column:
        b = b[..., None]
    made = small_calls.multiply(*((b, a) if how.is_reversed else (a, b)))
    if made is None:
        return None
    if is_row or is_column:
        made = made[..., 0, :] if is_row else made[..., 0]
    session.ways["numpy"] += 1
    return small_tensor(session, made if how.order is None else made.transpose(how.order))


def _sum_first(x: Any, y: Any, of_x: tuple[int, ...], of_y: tuple[int, ...], rest: str) -> Any:
    """The product of operands that are summed first, as plans do it; None where one is not small.

    Over axes that nobody else has.
    """
    is_small = kernel_input(x) is not None and kernel_input(y) is not None
    if not is_small or x._dtype is not y._dtype or x._dtype.kind not in "fc":
        return None
    total = late.public["sum"]
    x = total(x, axis=of_x) if of_x else x
    y = total(y, axis=of_y) if of_y else y
    return late.public["einsum"](rest, x, y)


@lru_cache(1024)
def _summed_axes(subscripts: str, ndim: int) -> tuple[int, ...] | None:
    """The axes over which one operand is summed, those of the result in their order."""
    labels, arrow, kept = subscripts.replace(" ", "").partition("->")
    if not arrow or not labels.isalpha() or not len(set(labels)) == len(labels) == ndim:
        return None
    if not set(kept) <= set(labels):
        return None
    axes = tuple(i for i, label in enumerate(labels) if label not in kept)
    is_plain = kept == "".join(label for label in labels if label in kept)
    return axes if axes and is_plain else None


@lru_cache(1024)
def _summed_before(
    subscripts: str, n_first: int, n_second: int
) -> tuple[tuple[int, ...], tuple[int, ...], str] | None:
    """The axes of either operand that are summed before, and the product of what is left.

    None where there are none.
    """
    labels, arrow, kept = subscripts.replace(" ", "").partition("->")
    left, comma, right = labels.partition(",")
    if not arrow or not comma or not (left + right).isalpha():
        return None
    if (len(left), len(right)) != (n_first, n_second) or not set(kept) <= set(left + right):
        return None
    if any(len(set(some)) != len(some) for some in (left, right, kept)):
        return None
    axes = [
        tuple(i for i, label in enumerate(own) if label not in other + kept)
        for own, other in ((left, right), (right, left))
    ]
    if not any(axes):
        return None
    rest = [
        "".join(c for c in own if c in other + kept)
        for own, other in ((left, right), (right, left))
    ]
    return axes[0], axes[1], f"{rest[0]},{rest[1]}->{kept}"


@lru_cache(1024)
def _product_of(subscripts: str, n_first: int, n_second: int) -> Product | None:
    """An einsum of two operands as a product of matrices, of stacks of them, or with vectors."""
    labels, arrow, kept = subscripts.replace(" ", "").partition("->")
    left, comma, right = labels.partition(",")
    if not arrow or not comma or not (left + right + kept).isalpha() or not left or not right:
        return None
    if (len(left), len(right)) != (n_first, n_second):
        return None
    if any(len(set(some)) != len(some) for some in (left, right, kept)):
        return None
    shared = [label for label in left if label in right]
    inner = [label for label in shared if label not in kept]
    batch = [label for label in kept if label in shared]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    if len(inner) != 1 or len(rows) > 1 or len(columns) > 1:
        return None
    vectors = (bool(batch) and not rows, bool(batch) and not columns)
    if all(vectors):
        return None
    natural = batch + rows + columns
    if sorted(natural) != sorted(kept):
        return None
    is_reversed = not batch and list(kept) != natural  # as plans do it
    first, second = batch + rows + inner, batch + inner + columns
    if is_reversed:
        first, second = inner + rows, columns + inner
    is_plain = is_reversed or list(kept) == natural
    return Product(
        tuple(left.index(label) for label in first),
        tuple(right.index(label) for label in second),
        vectors,
        is_reversed,
        None if is_plain else tuple(natural.index(label) for label in kept),
        tuple((left.index(label), right.index(label)) for label in shared),
    )
