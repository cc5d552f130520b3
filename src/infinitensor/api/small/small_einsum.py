"""`einsum` of small tensors at once, where it is made of sums and products of matrices.

The bits are those of plans: several operands are made one in the same order, sums have theirs, and
matrices are multiplied by the library that plans multiply with (`small_products.h`), as they are
stored. What it would have to copy first, and anything else, is recorded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from infinitensor.api.record.late import late
from infinitensor.api.small import small_calls
from infinitensor.api.small.host_values import kernel_input, small_tensor, tensors
from infinitensor.config import config
from infinitensor.dtypes import HALVES, float32
from infinitensor.ops.linalg.einsum import known_path


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
    if options or len(args) < 2 or type(args[0]) is not str or not config.small_elements:
        return None
    if any([type(x) is not tensors[0] for x in args[1:]]):
        return None
    if len(args) > 3:
        return _pair_by_pair(args[0], args[1:])
    x, y = args[1], args[-1]
    if len(args) == 2:
        axes = _summed_axes(args[0], len(x._shape)) if x._dtype.kind in "fc" else None
        return None if axes is None else late.public["sum"](x, axis=axes)
    unneeded = _summed_before(args[0], len(x._shape), len(y._shape))
    if unneeded is not None:
        return _sum_first(x, y, *unneeded)
    orders = _of_elements(args[0], len(x._shape), len(y._shape))
    if orders is not None:
        return _sum_of_products(x, y, *orders)
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


def _sum_of_products(x: Any, y: Any, of_x: tuple[int, ...], of_y: tuple[int, ...], n: int) -> Any:
    """The sum over all but the first `n` axes of the products of elements, as plans do it."""
    if not _are_alike((x, y)):
        return None
    kind, change = x._dtype, late.public["permute_dims"]
    x, y = (v if at == tuple(range(len(at))) else change(v, at) for v, at in ((x, of_x), (y, of_y)))
    if x._shape != y._shape:
        return None
    if kind in HALVES:  # rounded once
        x, y = x.astype(float32), y.astype(float32)
    made = x * y
    made = late.public["sum"](made, axis=n if n + 1 == len(of_x) else tuple(range(n, len(of_x))))
    return made.astype(kind) if kind in HALVES else made


def _are_alike(operands: Any) -> bool:
    """Whether all are small, on the host, and floats or complex numbers of one dtype."""
    kind = operands[0]._dtype
    return (kind.kind in "fc" or kind in HALVES) and all(
        [x._dtype is kind and kernel_input(x) is not None for x in operands]
    )


def _pair_by_pair(subscripts: str, operands: Any) -> Any:
    """Several operands made one, two at a time, in the order of plans."""
    if not _are_alike(operands):
        return None
    rest = list(operands)
    for i, j, step in _steps(subscripts, tuple([x._shape for x in operands])):
        made = einsum_now((step, rest[i], rest[j]), None)
        if made is None:
            return None
        del rest[j], rest[i]
        rest.append(made)
    return rest[0] if len(rest) == 1 else None


@lru_cache(1024)
def _steps(
    subscripts: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, int, str], ...]:
    """Which two are made one next, what is made stands last, and their subscripts.

    Nothing where labels are repeated, stretched or written in another way.
    """
    labels, arrow, kept = subscripts.replace(" ", "").partition("->")
    terms = labels.split(",")
    if not arrow or len(terms) != len(shapes) or not set(kept) <= set(labels):
        return ()
    if any(len(set(some)) != len(some) or not some.isalpha() for some in terms):
        return ()
    if len(set(kept)) != len(kept) or any(
        len(t) != len(s) for t, s in zip(terms, shapes, strict=True)
    ):
        return ()
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if any(sizes.setdefault(label, n) != n for label, n in zip(term, shape, strict=True)):
            return ()
    steps = []
    for chosen in known_path(tuple(terms), kept, tuple(sizes.items())):
        if len(chosen) != 2:
            return ()
        i, j = sorted(chosen)
        left, right = terms[i], terms[j]
        del terms[j], terms[i]
        needed = set(kept).union(*terms)
        made = "".join(label for label in dict.fromkeys(left + right) if label in needed)
        terms.append(kept if set(made) == set(kept) else made)
        steps.append((i, j, f"{left},{right}->{terms[-1]}"))
    return tuple(steps)


@lru_cache(1024)
def _of_elements(
    subscripts: str, n_first: int, n_second: int
) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """The axes of two operands with the same labels, those of the result first; how many these are.

    None: they have other labels, or nothing is summed.
    """
    labels, arrow, kept = subscripts.replace(" ", "").partition("->")
    left, comma, right = labels.partition(",")
    if not arrow or not comma or not left.isalpha() or len(left) < 2 or set(left) != set(right):
        return None
    if (len(left), len(right)) != (n_first, n_second) or not set(kept) < set(left):
        return None
    if any(len(set(some)) != len(some) for some in (left, right, kept)):
        return None
    every = kept + "".join(label for label in left if label not in kept)
    return tuple(map(left.index, every)), tuple(map(right.index, every)), len(kept)


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
