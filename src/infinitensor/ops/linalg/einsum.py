"""einsum: two operands as one contraction, many pair by pair. A contracted label may be cut.

A label of one operand alone is summed first. Two operands with the same labels are multiplied
element by element and summed in one pass, any others as matrices.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES, as_dtype, can_cast, float32, result_type
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.native import missed
from infinitensor.ops.forms.reduction import SUM
from infinitensor.ops.linalg.matmul import factors, product, product_call, product_scratch
from infinitensor.ops.table.registry import op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

# --- two operands -----------------------------------------------------------------------------


def _einsum_kernel(
    xp: Any, x: Any, y: Any, out: Any, left: str, right: str, kept: str, dtype: np.dtype[Any]
) -> None:
    """As one batched matrix product: labels of both kept, of one kept, of both contracted."""
    x, y = factors(xp, x, y, dtype)
    batch = [c for c in kept if c in left and c in right]
    rows = [c for c in kept if c in left and c not in right]
    columns = [c for c in kept if c in right and c not in left]
    inner = [c for c in left if c in right and c not in kept]
    size = label_sizes((x, y), (left, right))
    a = _arrange(xp, x, left, (batch, rows, inner), size)
    b = _arrange(xp, y, right, (batch, inner, columns), size)
    order = [*batch, *rows, *columns]
    shape = [prod(size[c] for c in group) for group in (batch, rows, columns)]
    direct = order == list(kept) and _is_contiguous(xp, out)
    if direct:
        target = out.reshape(shape)
    elif xp is np:
        target = np.empty(shape, out.dtype)
    else:
        target = xp.empty(shape, dtype=out.dtype, device=out.device)
    product(xp, a, b, target)
    if not direct:
        full = target.reshape([size[c] for c in order])
        axes = [order.index(c) for c in kept]
        out[...] = full.transpose(axes) if xp is np else full.permute(axes)


def _is_contiguous(xp: Any, x: Any) -> bool:
    return bool(x.flags.c_contiguous if xp is np else x.is_contiguous())


def _arrange(
    xp: Any, x: Any, labels: str, groups: Sequence[Sequence[str]], size: dict[str, int]
) -> Any:
    """The tile as three axes, one for each group of labels; size-1 axes are stretched."""
    order = [labels.index(c) for group in groups for c in group]
    x = x.transpose(order) if xp is np else x.permute(order)
    wanted = tuple(size[c] for group in groups for c in group)
    if tuple(x.shape) != wanted:
        x = np.broadcast_to(x, wanted) if xp is np else x.expand(wanted)
    return x.reshape([prod(size[c] for c in group) for group in groups])


def _einsum_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    extent: dict[str, int] = {}
    for labels, spec in zip((params["left"], params["right"]), ins, strict=True):
        for c, n in zip(labels, spec.shape, strict=True):
            extent[c] = max(extent.get(c, n), n)
    n_in = sum(prod(extent[c] for c in params[side]) for side in ("left", "right"))
    return product_scratch(n_in, outs[0].n_elements, ins, params["dtype"])


@op(
    "contraction",
    kernel=_einsum_kernel,
    combine=SUM,
    scratch_bytes=_einsum_scratch,
    cost=2.0,
    cases=lambda rng: [
        ((rng.normal(size=(5, 4)), rng.normal(size=(6, 4)), "nd", "kd", "nk"), {}),
        ((rng.normal(size=(5, 4)), rng.normal(size=(6, 4)), "nd", "kd", "kn"), {}),
        ((rng.normal(size=(3, 5, 4)), rng.normal(size=(5, 3, 2)), "bij", "ibk", "jbk"), {}),
        ((rng.integers(0, 9, (5, 4)), rng.integers(0, 9, (4, 5)), "ij", "ji", ""), {}),
        ((np.ones((0, 4)), np.ones((1, 4)), "ij", "ij", "i"), {}),
        ((np.ones((3, 0)), np.ones((1, 0)), "ij", "ij", "i"), {}),
    ],
    oracle=lambda x, y, left, right, kept: np.einsum(f"{left},{right}->{kept}", x, y),
)
def _einsum(x: Spec, y: Spec, left: str, right: str, kept: str) -> Call:
    """Two operands; a label in one alone must be kept, none may be repeated in an operand."""
    sizes = label_sizes((x, y), (left, right))
    number = {c: i for i, c in enumerate(sizes)}
    inputs = tuple(
        tuple(
            None if n == 1 and sizes[c] != 1 else number[c]
            for c, n in zip(labels, spec.shape, strict=True)
        )
        for spec, labels in ((x, left), (y, right))
    )
    form = AxisForm(tuple(sizes.values()), inputs, (tuple(number[c] for c in kept),))
    dtype = result_type(x.dtype, y.dtype)
    out = Spec(tuple(sizes[c] for c in kept), dtype)
    return product_call(form, out, left=left, right=right, kept=kept, dtype=dtype)


def label_sizes(operands: Sequence[Any], terms: Sequence[str]) -> dict[str, int]:
    """The size of each label; 1 gives way to any other."""
    sizes: dict[str, int] = {}
    for i, (x, labels) in enumerate(zip(operands, terms, strict=True)):
        if len(labels) != len(x.shape):
            raise ValueError(
                f"einsum: operand {i} has shape {tuple(x.shape)}, its subscripts {labels!r} name "
                f"{len(labels)} axes"
            )
        for c, n in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(c, n)
            if known == 1:
                sizes[c] = n
            elif n not in (1, known):
                raise ValueError(
                    f"einsum: label {c!r} has size {known} in one operand and {n} in operand {i}"
                )
    return sizes


# --- many operands ----------------------------------------------------------------------------

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def parse_subscripts(subscripts: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Labels of each operand and of the output, ellipses written out.

    >>> parse_subscripts("...ij,jk", (3, 2))
    (('aij', 'jk'), 'aik')
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(
            f"einsum: {subscripts!r} names {len(terms)} operands, {len(ndims)} are given"
        )
    for part in (*terms, right):
        bare = part.replace("...", "", 1)
        if bare and not (bare.isalpha() and bare.isascii()):
            raise ValueError(f"einsum: {part!r} in {subscripts!r} is no list of labels")
    free = [c for c in LETTERS if c not in subscripts]
    widths = [n - len(t) + 3 for t, n in zip(terms, ndims, strict=True) if "..." in t]
    if any(w < 0 for w in widths):
        raise ValueError(f"einsum: {subscripts!r} names more axes than an operand has")
    widest = max(widths, default=0)
    if widest > len(free):
        raise ValueError(f"einsum: {subscripts!r} needs more than {len(LETTERS)} labels")
    dots = "".join(free[:widest])
    written = []
    for term, n in zip(terms, ndims, strict=True):
        width = n - len(term) + 3
        written.append(term.replace("...", dots[widest - width :] if "..." in term else ""))
    if arrow:
        kept = right.replace("...", dots)
        if dots and "..." not in right:
            raise ValueError(
                f"einsum: {subscripts!r}: the output has no '...' for the {widest} axes that "
                "the operands broadcast"
            )
    else:
        every = "".join(written)
        kept = dots + "".join(
            sorted(c for c in set(every) if every.count(c) == 1 and c not in dots)
        )
    if len(set(kept)) != len(kept):
        raise ValueError(f"einsum: the output {kept!r} of {subscripts!r} has a label twice")
    missing = set(kept) - set("".join(written))
    if missing:
        raise ValueError(
            f"einsum: output label {min(missing)!r} of {subscripts!r} is in no operand"
        )
    return tuple(written), kept


def contraction_path(
    terms: Sequence[str], kept: str, sizes: dict[str, int]
) -> list[tuple[int, ...]]:
    """Which operands to contract next, the results appended: opt_einsum's answer, or NumPy's, which
    may take more work and is counted."""
    text = f"{','.join(terms)}->{kept}"
    shapes = [tuple(sizes[c] for c in term) for term in terms]
    try:
        import opt_einsum
    except ImportError:
        missed[0] += 1
        ghosts = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
        return list(np.einsum_path(text, *ghosts, optimize="greedy")[0][1:])
    return list(opt_einsum.contract_path(text, *shapes, shapes=True, optimize="auto")[0])


@lru_cache(1024)
def known_path(
    terms: tuple[str, ...], kept: str, sizes: tuple[tuple[str, int], ...]
) -> tuple[tuple[int, ...], ...]:
    """`contraction_path`, which takes longer than many einsums, found once for each question."""
    return tuple(contraction_path(terms, kept, dict(sizes)))


def _without_repeats(xp: Any, x: Any, labels: str) -> tuple[Any, str]:
    """A label twice in one operand means its diagonal."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(
                    f"einsum: label {c!r} has sizes {x.shape[i]} and {x.shape[j]} in one operand"
                )
            x = xp.diagonal(x, axis1=i, axis2=j)
            labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + c
    return x, labels


def _sum_unneeded(xp: Any, x: Any, labels: str, needed: set[str], dtype: Any) -> tuple[Any, str]:
    """Without the labels that nobody else needs."""
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    if not axes:
        return x, labels
    total = xp.any(x, axis=axes) if dtype.kind == "b" else xp.sum(x, axis=axes, dtype=dtype)
    return total, "".join(c for c in labels if c in needed)


def _from_sublists(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]): labels as numbers."""
    operands, lists = list(args[: len(args) // 2 * 2 : 2]), list(args[1::2])
    text = ",".join(_sublist_text(labels) for labels in lists)
    if len(args) % 2:
        text += "->" + _sublist_text(args[-1])
    return text, operands


def _sublist_text(labels: Sequence[Any]) -> str:
    for i in labels:
        if i is not Ellipsis and not 0 <= operator.index(i) < len(LETTERS):
            raise ValueError(f"einsum: subscript {i} is not within the valid range [0, 52)")
    return "".join("..." if i is Ellipsis else LETTERS[operator.index(i)] for i in labels)


def _einsum_cases(rng: np.random.Generator) -> list[Any]:
    x, y, z = rng.normal(size=(4, 5)), rng.normal(size=(5, 6)), rng.normal(size=(6, 4))
    b = rng.normal(size=(3, 4, 5))
    return [
        (("ij,jk->ik", x, y), {}),
        (("ij,jk,kl->il", x, y, z), {}),
        (("ij,jk,ki->", x, y, z), {}),
        (("...ij,jk", b, y), {}),
        (("ii->i", rng.normal(size=(4, 4))), {}),
        (("ii", rng.normal(size=(4, 4))), {}),
        (("ij->ji", x), {}),
        (("ij->j", x), {}),
        (("i,j->ij", x[:, 0], y[:, 0]), {}),
        (("ij,kj->", x, x), {}),
        (("bij,bij->b", b, b), {}),
        (("ij,ij->ij", x.astype(np.float32), x.astype(np.float32)), {}),
        (("ij,jk", np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)), {}),
    ]


@program(cases=_einsum_cases)
def einsum(
    xp: Any,
    subscripts: Any,
    *operands: Any,
    dtype: Any = None,
    order: str | None = "K",
    casting: str = "safe",
    optimize: Any = True,
) -> Any:
    """Sums of products over labelled axes: "ij,jk->ik" is the matrix product.

    More than two operands are contracted pair by pair, in the cheapest order that `opt_einsum`
    (or NumPy, where it is missing) finds.

    >>> import infinitensor as it
    >>> it.einsum("ij,ij->i", it.asarray([[1, 2], [3, 4]]), it.asarray([[1, 1], [1, 1]])).numpy()
    array([3, 7])
    """
    xs = list(operands)
    _check_path(optimize, len(xs) if isinstance(subscripts, str) else (len(xs) + 1) // 2)
    if not isinstance(subscripts, str):
        subscripts, xs = _from_sublists((subscripts, *operands))
    xs = [xp.asarray(x) for x in xs]
    given = tuple([(tuple(x.shape), x.dtype) for x in xs])
    wanted = None if dtype is None else as_dtype(dtype)
    terms, kept, kind, is_product = _read(subscripts, given, wanted, casting)
    if is_product:
        x, y = [x if x.dtype == kind else x.astype(kind) for x in xs]
        left, right = terms
        found = product_of(xp, x, y, left, right, kept)
    else:
        found = _pair_by_pair(xp, xs, terms, kept, kind)
    order = "K" if order is None else order
    if order in "aA":
        order = "F" if all(x.flags.fnc for x in xs) else "C"
    return found if order in "cCkK" else xp.copy(found, order)


def _pair_by_pair(xp: Any, xs: Sequence[Any], terms: tuple[str, ...], kept: str, kind: Any) -> Any:
    """Operands made one, two at a time."""
    pairs = [_without_repeats(xp, x, labels) for x, labels in zip(xs, terms, strict=True)]
    pairs = [(x if x.dtype == kind else x.astype(kind), labels) for x, labels in pairs]
    path: Sequence[tuple[int, ...]] = [(0, 1)]
    if len(pairs) > 2:
        sizes = label_sizes([x for x, _ in pairs], [labels for _, labels in pairs])
        path = known_path(tuple(t for _, t in pairs), kept, tuple(sizes.items()))
    for step in path if len(pairs) > 1 else ():
        chosen = [pairs[i] for i in sorted(step)]
        rest = [pair for i, pair in enumerate(pairs) if i not in step]
        while len(chosen) > 1:
            needed = set(kept).union(*(t for _, t in (*rest, *chosen[2:])))
            chosen = [_contract(xp, chosen[0], chosen[1], needed, kept, kind), *chosen[2:]]
        pairs = [*rest, *chosen]
    ((x, labels),) = pairs
    return _in_order(xp, *_sum_unneeded(xp, x, labels, set(kept), kind), kept)


@lru_cache(1024)
def _read(
    subscripts: str,
    given: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
    dtype: np.dtype[Any] | None,
    casting: str,
) -> tuple[tuple[str, ...], str, np.dtype[Any], bool]:
    """Labels of operands of given shapes and dtypes and of the output, the dtype that it is
    computed in, and whether it is a product of two; an error where these do not fit."""
    specs = [Spec(*one) for one in given]
    terms, kept = parse_subscripts(subscripts, tuple(x.ndim for x in specs))
    kind = result_type(*(x.dtype for x in specs)) if dtype is None else dtype
    if len(specs) == 1 and set(kept) == set(terms[0]):
        kind = specs[0].dtype  # a view, as NumPy's is: nothing is computed in a dtype
    _check_casts(specs, kind, casting)
    label_sizes(specs, terms)
    return terms, kept, kind, _is_product(specs, terms, kept)


def _is_product(specs: Sequence[Spec], terms: tuple[str, ...], kept: str) -> bool:
    """Whether two operands are one product as they are: before it, nothing is summed, no diagonal
    taken and nothing stretched; and it is not a product of elements."""
    if len(terms) != 2 or any(len(set(labels)) < len(labels) for labels in terms):
        return False
    x, y = (
        dict(zip(labels, one.shape, strict=True)) for labels, one in zip(terms, specs, strict=True)
    )
    shared, every = x.keys() & y.keys(), x.keys() | y.keys()
    if x.keys() == y.keys() or every == set(kept) or not every <= shared | set(kept):
        return False
    return all(x[c] == y[c] for c in shared)


def _check_path(optimize: Any, n_operands: int) -> None:
    """Refuse what NumPy knows no path by; ours is our own."""
    if isinstance(optimize, bool | None):
        return
    if isinstance(optimize, str):
        if optimize not in ("greedy", "optimal"):
            raise KeyError(f"einsum: no path is named {optimize!r}; use 'greedy' or 'optimal'")
        return
    if not optimize or optimize[0] != "einsum_path":
        return
    left = n_operands
    for step in optimize[1:]:
        if any(not 0 <= i < left for i in step):
            raise RuntimeError(f"einsum: invalid path: step {step} of {left} operands")
        left += 1 - len(set(step))
    if left != 1:
        raise RuntimeError(f"einsum: invalid path: {left} operands are left")


def _check_casts(xs: Sequence[Any], kind: np.dtype[Any], casting: str) -> None:
    for i, x in enumerate(xs):
        if not can_cast(x.dtype, kind, casting):
            raise TypeError(
                f"Iterator operand {i} dtype could not be cast from {x.dtype!r} to {kind!r} "
                f"according to the rule {casting!r}"
            )


def _contract(
    xp: Any, a: tuple[Any, str], b: tuple[Any, str], needed: set[str], last: str, kind: Any
) -> tuple[Any, str]:
    """Two operands made one; in the order of the result if it has the labels of the result.

    So the result is a tensor of its own, in C order, and no view of another.
    """
    x, left = _sum_unneeded(xp, *a, needed | set(b[1]), kind)
    y, right = _sum_unneeded(xp, *b, needed | set(left), kind)
    kept = "".join(c for c in dict.fromkeys(left + right) if c in needed)
    if set(kept) == set(last):
        kept = last
    inner = [c for c in left if c in right and c not in needed]
    for c in inner:  # a size-1 axis against a longer one: each side is summed for itself
        if x.shape[left.index(c)] != y.shape[right.index(c)]:
            x, left = _sum_unneeded(xp, x, left, set(left) - {c}, kind)
            y, right = _sum_unneeded(xp, y, right, set(right) - {c}, kind)
    if {*left, *right} == set(kept):  # nothing is summed: no product of matrices
        return xp.multiply(_along(xp, x, left, kept), _along(xp, y, right, kept)), kept
    if {*left} == {*right} and len(left) > 1:
        return _sum_of_products(xp, (x, left), (y, right), kept, kind), kept
    return product_of(xp, x, y, left, right, kept), kept


def _sum_of_products(
    xp: Any, a: tuple[Any, str], b: tuple[Any, str], kept: str, kind: np.dtype[Any]
) -> Any:
    """Two operands with the same labels: matrices of one row and one column would be many, each a
    call. One pass, in which halves are floats, and what is made of them is rounded once."""
    (x, left), (y, right) = a, b
    every = kept + "".join(c for c in left if c not in kept)
    x, y = _in_order(xp, x, left, every), _in_order(xp, y, right, every)
    if kind in HALVES:
        x = x.astype(float32)
    return _sum_unneeded(xp, xp.multiply(x, y), every, set(kept), kind)[0]


def product_of(xp: Any, x: Any, y: Any, left: str, right: str, kept: str) -> Any:
    """Two operands with a label in common made one: matrices and vectors by `matmul`, which needs
    no copies and can run without Python, anything else by `_einsum`."""
    shared = {*left} & {*right}
    if len(shared) != 1 or shared <= {*kept} or max(len(left), len(right)) > 2:
        return xp._einsum(x, y, left, right, kept)
    (inner,) = shared
    rows, columns = left.replace(inner, ""), right.replace(inner, "")
    if kept != rows + columns:
        x, left, rows, y, right, columns = y, right, columns, x, left, rows
    return xp.matmul(_in_order(xp, x, left, rows + inner), _in_order(xp, y, right, inner + columns))


def _along(xp: Any, x: Any, labels: str, kept: str) -> Any:
    """An operand with the axes of a result, of length 1 where it has none."""
    x = _in_order(xp, x, labels, "".join(c for c in kept if c in labels))
    return x[tuple(slice(None) if c in labels else None for c in kept)]


def _in_order(xp: Any, x: Any, labels: str, kept: str) -> Any:
    if labels == kept:
        return x
    return xp.permute_dims(x, tuple(labels.index(c) for c in kept))
