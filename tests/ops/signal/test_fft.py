"""Fourier transforms: every case in pieces, on both kinds of kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.programs import Cut, check_cases, ops_of

import infinitensor as it
from infinitensor.dtypes import NUMPYS
from infinitensor.ops.table.registry import TABLE

STEPS = [1, 2, 7, 1000]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ops_of("fft") + ops_of("long_fft"))
def test_pieces_give_the_value_of_the_whole(name: str, kind: str, step: int) -> None:
    check_cases(name, step, 4, kind)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("word", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("dtype", NUMPYS, ids=str)
def test_every_dtype_gives_numpys_dtype(dtype: Any, word: str, kind: str) -> None:
    x = np.random.default_rng(0).integers(0, 4, (3, 6)).astype(dtype)
    if word == "rfft" and x.dtype.kind == "c":
        with pytest.raises(TypeError, match="rfft"):
            Cut().run("fft.rfft", (x,), {})
        return
    got = Cut(2, 4, kind).run(f"fft.{word}", (x,), {})
    wanted = getattr(np.fft, word)(x)
    assert got.dtype == wanted.dtype
    tolerance = {2: 2e-2, 4: 1e-5}.get(x.dtype.itemsize if x.dtype.kind in "f" else 8, 1e-5)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def test_only_a_short_transform_of_the_only_axis_is_whole() -> None:
    xp = Cut()
    xp.run("fft.fft", (np.ones((3, 4)),), {})
    assert xp.called == ["fft.fft", "_fft_axis"]
    xp = Cut()
    xp.run("fft.fft", (np.ones(4),), {})
    assert xp.called == ["fft.fft", "_fft_whole"]
    assert TABLE["_fft_whole"].whole
    xp = Cut()
    xp.run("fft.fft", (np.ones(12),), {})
    assert xp.called == ["fft.fft", "_fft_axis", "_rotated_fft", "_unfolded"]


def test_read_only_and_backward_tiles_are_read() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6))[::-1, ::-1]
    x.setflags(write=False)
    np.testing.assert_allclose(Cut(2).run("fft.fft", (x,), {}), np.fft.fft(x))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_empty_arrays_give_empty_or_refused_transforms(shape: Any) -> None:
    x = np.zeros(shape)
    if shape[1]:
        assert Cut().run("fft.fft", (x,), {}).shape == shape
    else:
        with pytest.raises(ValueError, match=r"Invalid number of FFT data points \(0\)"):
            Cut().run("fft.fft", (x,), {})
        np.testing.assert_array_equal(Cut().run("fft.fft", (x, 3), {}), np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((np.ones(3), 0), ValueError, r"Invalid number of FFT data points \(0\)"),
        ((np.ones(3), None, 2), IndexError, "axis 2"),
        ((np.ones(3), None, -1, "x"), ValueError, "Invalid norm value x"),
        ((np.array(1.0),), IndexError, "axis -1"),
    ],
)
def test_bad_arguments_raise_at_the_call(args: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        Cut().run("fft.fft", args, {})


@pytest.mark.parametrize("name", sorted(np.fft.__all__))
def test_fft_has_every_name_of_numpys(name: str) -> None:
    assert f"fft.{name}" in TABLE


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize(
    ("there", "back", "size"), [("fftn", "ifftn", {}), ("rfftn", "irfftn", {"s": (3, 5)})]
)
def test_a_transform_and_its_inverse_give_the_values_back(
    there: str, back: str, size: Any, norm: Any
) -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 5))
    over = {"axes": (1, 2), "norm": norm}
    middle = Cut(2).run(f"fft.{there}", (x,), over)
    np.testing.assert_allclose(Cut(3).run(f"fft.{back}", (middle,), {**over, **size}), x)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_transform_runs_in_full_tiles(axis: int) -> None:
    assert it.plan(it.fft.fft(it.zeros((1024, 1024)), axis=axis)).n_tasks <= 32


def test_several_axes_of_one_tensor_are_cut() -> None:
    xp = Cut()
    xp.run("fft.fftn", (np.ones((3, 4)),), {})
    assert xp.called == ["fft.fftn", "_fft_axis", "_fft_axis"]


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("fftn", (np.ones((2, 3)), (2,), (0, 1)), ValueError, "different lengths"),
        ("fftn", (np.ones((2, 3)), None, (0, 2)), IndexError, "axis 2"),
        ("rfftn", (np.ones(()),), IndexError, "at least one axis"),
        ("rfft2", (np.ones((2, 3)) * 1j,), TypeError, "rfft"),
        ("fft2", (np.ones((2, 3)), (0, 2)), ValueError, "data points"),
        ("hfft", (np.ones(3), None, -1, "x"), ValueError, "Invalid norm value x"),
        ("hfft", (np.ones(1),), ValueError, "data points"),
        ("fftfreq", (2.5,), ValueError, "n should be an integer"),
        ("fftshift", (np.ones(3), 1), ValueError, "axis 1 is out of bounds"),
    ],
)
def test_bad_arguments_of_other_transforms_are_refused(
    name: str, args: Any, error: Any, text: str
) -> None:
    with pytest.raises((error, IndexError), match=r"."):
        getattr(np.fft, name)(*args)
    with pytest.raises(error, match=text):
        Cut().run(f"fft.{name}", args, {})


def test_a_transform_may_be_written_into_an_array() -> None:
    x = np.arange(6.0).reshape(2, 3)
    out = it.zeros((2, 3), dtype=complex)
    assert it.fft.fft(it.asarray(x), None, -1, None, out) is out
    np.testing.assert_allclose(out.numpy(), np.fft.fft(x))
    assert it.fft.fftn(x, out=out[::-1]).shape == (2, 3)
    np.testing.assert_allclose(out.numpy(), np.fft.fftn(x)[::-1])
    with pytest.raises(ValueError, match="output array has wrong shape"):
        it.fft.rfft(x, out=out)
