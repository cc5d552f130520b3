"""Searching in what is sorted. The values are cut, what is searched is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from infinitensor.dtypes import int64, result_type, to_torch
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.sorting.sort import torch_argsort, torch_keys
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence


def _search_kernel(xp: Any, a: Any, v: Any, out: Any, side: Literal["left", "right"]) -> None:
    a, v = np.asarray(a), np.asarray(v)
    common = result_type(a.dtype, v.dtype)
    search = loop("searchsorted", "search", common)
    if search is None:
        out[...] = np.searchsorted(a, v, side=side)
        return
    a, v = np.ascontiguousarray(a, common), np.ascontiguousarray(v, common)
    found = out if out.flags.c_contiguous else np.empty(out.shape, np.int64)
    search(a, a.size, v, v.size, found, int(side == "right"))
    if found is not out:
        out[...] = found


def _search_torch(xp: Any, a: Any, v: Any, out: Any, side: str) -> None:
    v = torch.as_tensor(v, device=a.device)
    common = to_torch(result_type(_numpy_dtype(a), _numpy_dtype(v)))
    a, v = a.to(common), v.to(common)
    if a.is_complex():
        out[...] = _search_by_sorting(a, v.reshape(-1), side).reshape(v.shape)
        return
    n_nan: Any = 0
    if a.is_floating_point():
        n_nan = a.isnan().sum()
        a = torch.where(a.isnan(), torch.inf, a)  # torch's bisection needs an order
    else:
        (a,), (v,) = torch_keys(a), torch_keys(v)
    if a.dtype is torch.bool:
        a, v = a.to(torch.int8), v.to(torch.int8)
    found = torch.searchsorted(a.contiguous(), v.contiguous(), side=side)
    if a.is_floating_point():
        n_numbers = a.shape[0] - n_nan
        found = torch.minimum(found, n_numbers)
        found = torch.where(v.isnan(), n_numbers if side == "left" else a.shape[0], found)
    out[...] = found


def _search_by_sorting(a: Any, v: Any, side: str) -> Any:
    """Ranks from a stable sort of both together: what comes first in it counts as smaller."""
    left = side == "left"
    order = torch_argsort(torch.cat((v, a) if left else (a, v)), 0)
    of_v = order < v.shape[0] if left else order >= a.shape[0]
    rank = torch.cumsum(~of_v, 0)
    found = torch.empty(v.shape, dtype=torch.int64, device=v.device)
    found[order[of_v] - (0 if left else a.shape[0])] = rank[of_v]
    return found


def _numpy_dtype(x: Any) -> np.dtype[Any]:
    return np.dtype(str(x.dtype).removeprefix("torch."))


def _search_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Both in one dtype and one piece, and the places."""
    itemsize = result_type(ins[0].dtype, ins[1].dtype).itemsize
    numbers = ins[0].n_elements + ins[1].n_elements
    return int(itemsize * numbers + 16 * outs[0].n_elements + 1024)


def _search_scratch_cuda(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 48 * (ins[0].n_elements + ins[1].n_elements) + 16 * outs[0].n_elements


def _search_cases(rng: Any) -> list[Any]:
    a = np.sort(rng.integers(0, 9, 12))
    holes = np.array([1.0, 2.0, 2.0, np.inf, np.nan, np.nan])
    return [
        (args, {"side": side})
        for side in ("left", "right")
        for args in (
            (a, rng.integers(-2, 12, (3, 4))),
            (a, 4),
            (holes, np.array([2.0, np.inf, np.nan, 0.0])),
            (a.astype("f4"), rng.standard_normal(5)),
            (np.zeros(0), np.ones(3)),
        )
    ]


@op(
    "mapped",
    kernel=_search_kernel,
    kernels={"cuda": _search_torch},
    scratch_bytes=_search_scratch,
    scratches={"cuda": _search_scratch_cuda},
    cost=20.0,
    cases=_search_cases,
    oracle=np.searchsorted,
    same="equal",
    wide=True,
)
def _searchsorted(a: Spec, v: Spec, side: str = "left") -> Call:
    """`searchsorted` without a sorter."""
    if a.ndim != 1:
        wrong = "deep" if a.ndim else "small depth"
        raise ValueError(f"searchsorted: object too {wrong} for desired array (a has {a.shape})")
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    labels = tuple(range(v.ndim))
    form = AxisForm((*v.shape, *a.shape), ((v.ndim,), labels), (labels,), frozenset((v.ndim,)))
    return call(form, Spec(v.shape, int64), side=side)


@program(
    cases=lambda rng: [
        *_search_cases(rng),
        ((np.array([3, 1, 2]), np.array([2, 3])), {"sorter": np.array([1, 2, 0])}),
    ],
    same="equal",
    wide=True,
)
def searchsorted(xp: Any, a: Array, v: Array, side: str = "left", sorter: Array = None) -> Any:
    """Where values would be inserted into a sorted array to keep it sorted.

    The values are cut, the sorted array is not.

    >>> import infinitensor as it
    >>> it.searchsorted(it.asarray([1, 3, 5]), it.asarray([0, 3, 9])).numpy().tolist()
    [0, 1, 3]
    """
    if sorter is not None:
        if sorter.dtype.kind not in "iu":
            raise TypeError("sorter must only contain integers")
        if len(sorter.shape) != 1 or tuple(sorter.shape) != tuple(a.shape):
            raise ValueError("sorter.size must equal len(a)")
        a = xp.take(a, sorter, 0)
    return xp._searchsorted(a, v, side)
