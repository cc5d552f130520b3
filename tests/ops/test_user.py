"""A user's function as an op: forms, cuts, combines, halos, regions and clear errors."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, run, spec_of

import infinitensor as it
from infinitensor.ops.user import map_tiles_op

STEPS = (1, 2, 7, WHOLE)


def mapped(fn: Any, *arrays: Any, step: int = 2, device: str = "cpu", **options: Any) -> Any:
    op, call = map_tiles_op(fn, [spec_of(a) for a in arrays], **options)
    outs = run(op, call, arrays, step, device)
    return outs[0] if len(outs) == 1 else outs


X = np.random.default_rng(0).normal(size=(9, 4))
Y = np.random.default_rng(1).normal(size=(5, 4))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("step", STEPS)
def test_uncut_labels_stay_whole_without_a_combine(step: int, device: str) -> None:
    def distances(x: Any, y: Any) -> Any:
        assert x.shape[1] == y.shape[1] == 4
        return ((x[:, None] - y[None]) ** 2).sum(-1)

    got = mapped(distances, X, Y, form="nd,kd->nk", step=step, device=device)
    np.testing.assert_allclose(got, ((X[:, None] - Y[None]) ** 2).sum(-1))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("step", STEPS)
def test_contracted_labels_are_combined(step: int, device: str) -> None:
    got = mapped(
        lambda x, y: x @ y.T, X, Y, form="nd,kd->nk", combine="sum", step=step, device=device
    )
    np.testing.assert_allclose(got, X @ Y.T)
    largest = mapped(
        lambda x: x.max(0) if device == "cpu" else x.amax(0),
        X,
        form="nd->d",
        combine="max",
        step=step,
        device=device,
    )
    np.testing.assert_array_equal(largest, X.max(0))


@pytest.mark.parametrize("combine", [None, "sum"])
@pytest.mark.parametrize("n", [6, 70_000])
def test_a_function_cannot_change_the_tensor_it_is_given(n: int, combine: str | None) -> None:
    def centred(tile: Any) -> Any:
        tile -= tile.mean()
        return tile if combine is None else tile.sum(0)

    x = it.arange(2.0 * n).reshape(n, 2)
    form = "nd->nd" if combine is None else "nd->d"
    with pytest.raises(ValueError, match="read-only"):
        it.map_tiles(centred, x, form=form, combine=combine).numpy()
    np.testing.assert_array_equal(x.numpy(), np.arange(2.0 * n).reshape(n, 2))


def test_a_write_to_a_tile_on_a_gpu_is_an_error() -> None:
    def centred(tile: Any) -> Any:
        tile -= tile.mean()
        return tile

    with pytest.raises(ValueError, match=r"wrote to a tile.*tile\.clone"):
        mapped(centred, X.copy(), form="nd->nd", device="cuda")


@pytest.mark.parametrize("step", STEPS)
def test_several_outputs_and_dtypes(step: int) -> None:
    both = mapped(
        lambda x: (x * 2, x.sum(1) > 0), X, form="nd->nd;n", dtype=(float, bool), step=step
    )
    np.testing.assert_array_equal(both[0], X * 2)
    np.testing.assert_array_equal(both[1], X.sum(1) > 0)
    pair = mapped(lambda x: (x.sum(0), x.sum()), X, form="nd->d;", combine="sum", step=step)
    np.testing.assert_allclose(pair[0], X.sum(0))
    np.testing.assert_allclose(pair[1], X.sum())


@pytest.mark.parametrize("step", STEPS)
def test_new_labels_take_their_size(step: int) -> None:
    got = mapped(lambda x: x[:, :1] * np.arange(5), X, form="nd->nq", sizes={"q": 5}, step=step)
    np.testing.assert_array_equal(got, X[:, :1] * np.arange(5))


@pytest.mark.parametrize("step", STEPS)
def test_halo_and_region(step: int) -> None:
    n = len(X)

    def smooth(x: Any, *, region: Any) -> Any:
        ((lo, hi), _) = region[0]
        inner = slice(lo - max(lo - 1, 0), lo - max(lo - 1, 0) + hi - lo)
        padded = np.pad(x, ((lo == 0, hi == n), (0, 0)), mode="edge")
        assert x[inner].shape[0] == hi - lo
        return padded[:-2] + padded[1:-1] + padded[2:]

    got = mapped(smooth, X, form="nd->nd", halo={"n": (1, 1)}, with_region=True, step=step)
    edge = np.pad(X, ((1, 1), (0, 0)), mode="edge")
    np.testing.assert_allclose(got, edge[:-2] + edge[1:-1] + edge[2:])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"form": "nd"}, "does not read as"),
        ({"form": "nd,kd->n"}, "names 2 inputs, 1 are given"),
        ({"form": "nnd->n"}, "repeats a label"),
        ({"form": "n->n"}, "gives input 0 1 axes"),
        ({"form": "nd->nq"}, "size of label 'q'"),
        ({"form": "nd->n", "combine": "median"}, "combine='median' is none of"),
        ({"form": "nd->n", "halo": {"z": (1, 1)}}, "halo of 'z'"),
        ({"form": "nd->n;d", "dtype": (float,)}, "has 2 outputs, dtype= names 1"),
    ],
)
def test_bad_forms_are_explained_at_the_call(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        map_tiles_op(lambda x: x, [spec_of(X)], **options)


def test_sizes_that_differ_name_the_label() -> None:
    with pytest.raises(ValueError, match="label 'd' of 'nd,kd->nk' has size 4 in one input and 3"):
        map_tiles_op(np.dot, [spec_of(X), spec_of(Y[:, :3])], "nd,kd->nk")


def test_results_of_the_wrong_shape_dtype_or_number_name_the_form() -> None:
    with pytest.raises(
        ValueError, match=r"output 0 of 'nd->n' has shape \(2, 4\) for a tile of \(2,\)"
    ):
        mapped(lambda x: x, X, form="nd->n")
    with pytest.raises(
        TypeError, match="output 0 of 'nd->n' is float64, which is no int64; set dtype="
    ):
        mapped(lambda x: x.sum(1), X, form="nd->n", dtype=np.int64)
    with pytest.raises(ValueError, match="has 1 outputs, the function returned 2"):
        mapped(lambda x: (x, x), X, form="nd->nd")
    with pytest.raises(ValueError, match=r"output 0 of 'nd->n' has shape"):
        mapped(lambda x: x, X, form="nd->n", combine="sum")


def counted(tile: Any) -> Any:
    while (tile > 1).any():
        tile = np.where(tile > 1, tile / 2, tile)
        yield
    return tile


@pytest.mark.parametrize("step", STEPS)
def test_a_generator_is_a_loop_whose_return_is_the_result(step: int) -> None:
    got = mapped(counted, abs(X) * 100, form="nd->nd", step=step)
    wanted = abs(X) * 100
    while (wanted > 1).any():
        wanted = np.where(wanted > 1, wanted / 2, wanted)
    np.testing.assert_array_equal(got, wanted)


def test_a_loop_that_never_ends_is_left_when_the_run_stops_and_starts_anew() -> None:
    before = it.config.small_elements, it.config.inline_elements
    it.config.small_elements = it.config.inline_elements = 0
    once = threading.Lock()
    endless = True

    def steps(tile: Any) -> Any:
        while endless:
            if once.acquire(blocking=False):
                os.kill(os.getpid(), signal.SIGINT)
            yield
        return tile + 1

    try:
        with it.init("cpu"):
            x = it.map_tiles(steps, it.asarray(X), form="nd->nd")
            with pytest.raises(KeyboardInterrupt):
                it.compute(x)
            endless = False
            np.testing.assert_array_equal(x.numpy(), X + 1)
    finally:
        it.config.small_elements, it.config.inline_elements = before
