"""Transforms and histograms of small tensors: the bits, shapes and errors of plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config


def planned(name: str, *args: Any) -> Any:
    """What a plan makes of it."""
    config.small_elements = 0
    try:
        given = [it.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        made = name_of(it, name)(*given)
        return tuple(x.numpy() for x in made) if isinstance(made, tuple) else made.numpy()
    finally:
        config.small_elements = type(config)().small_elements


def name_of(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


@pytest.mark.parametrize("word", ["fft", "ifft", "rfft", "irfft", "fft2"])
@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "c16", "i8"])
def test_transforms_have_the_bits_of_plans(word: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((8,), (1,), (31,), (3, 20), (1, 12), (2, 3, 10), (6, 1)):
        x = (rng.standard_normal(shape) * 5).astype(kind)
        if (word == "rfft" and kind[0] == "c") or (word == "fft2" and len(shape) < 2):
            continue
        if word == "irfft" and shape[-1] < 2:
            continue
        made = name_of(it.fft, word)(it.asarray(x))
        wanted = planned(f"fft.{word}", x)
        assert made.dtype == wanted.dtype
        assert made.numpy().tobytes() == wanted.tobytes()
        np.testing.assert_allclose(made.numpy(), getattr(np.fft, word)(x), rtol=1e-4, atol=1e-3)


def test_transforms_are_cut_and_padded() -> None:
    x = np.random.default_rng(1).standard_normal((3, 10)).astype("f4")
    for n in (4, 10, 15):
        np.testing.assert_allclose(
            it.fft.rfft(it.asarray(x), n).numpy(), np.fft.rfft(x, n), rtol=1e-4, atol=1e-4
        )
        spectrum = np.fft.rfft(x)
        np.testing.assert_allclose(
            it.fft.irfft(it.asarray(spectrum), n).numpy(), np.fft.irfft(spectrum, n), atol=1e-5
        )
    with pytest.raises(ValueError, match="Invalid number of FFT data points"):
        it.fft.fft(it.asarray(x), 0)
    with pytest.raises(TypeError, match="rfft"):
        it.fft.rfft(it.asarray(x + 1j))


def test_small_transforms_are_kernels_and_views_are_read() -> None:
    x = it.asarray(np.arange(40.0).reshape(4, 10))
    it.stats(reset=True)
    made = it.fft.fft2(x)
    assert it.stats()["ways"]["kernel"] == 2 * bool(config.small_elements)
    np.testing.assert_allclose(made.numpy(), np.fft.fft2(x.numpy()), atol=1e-9)
    np.testing.assert_allclose(it.fft.fft(x[:, ::2]).numpy(), np.fft.fft(x.numpy()[:, ::2]))
    np.testing.assert_allclose(it.fft.fft(x.T).numpy(), np.fft.fft(x.numpy().T))


@pytest.mark.parametrize("word", ["fft", "ifft", "rfft", "irfft", "fft2"])
def test_medium_transforms_run_at_once_with_the_bits_of_plans(word: str) -> None:
    rng = np.random.default_rng(2)
    for shape, kind in (((700, 101), "c8"), ((3, 1, 30_011), "f4"), ((260, 256), "f8")):
        x = (rng.standard_normal(shape) * 5).astype(kind)
        if word == "rfft" and kind[0] == "c":
            continue
        given = it.asarray(x)
        it.stats(reset=True)
        made = name_of(it.fft, word)(given)
        ways = it.stats()["ways"]
        if config.small_elements:
            assert ways["moved"] == 1 + (word == "fft2")
            assert not ways["recorded"]
        assert made.numpy().tobytes() == planned(f"fft.{word}", x).tobytes()
        np.testing.assert_array_equal(given.numpy(), x)


@pytest.mark.parametrize("n", [467, 934, 1868, 4096, 4098, 5003])
def test_lines_of_any_number_of_points_have_the_bits_of_plans(n: int) -> None:
    x = np.random.default_rng(3).standard_normal(n).astype("f4")
    made = it.fft.rfft(it.asarray(x))
    assert made.numpy().tobytes() == planned("fft.rfft", x).tobytes()
    np.testing.assert_allclose(made.numpy(), np.fft.rfft(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "u1", "f2"])
@pytest.mark.parametrize("shape", [(1,), (500,), (20, 30)])
def test_histograms_are_those_of_plans(kind: str, shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 3).astype(kind)
    for bins in (1, 7, 300):
        number, edges = it.histogram(it.asarray(x), bins, (-4.0, 4))
        wanted = planned("histogram", x, bins, (-4.0, 4))
        assert number.tolist() == wanted[0].tolist()
        assert edges.dtype == wanted[1].dtype
        assert edges.numpy().tobytes() == wanted[1].tobytes()


def test_edges_are_ones_own_and_errors_are_said() -> None:
    x = it.asarray(np.linspace(0, 1, 50))
    edges = it.histogram(x, 4, (0.0, 1.0))[1]
    edges[0] = 9.0
    assert it.histogram(x, 4, (0.0, 1.0))[1].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    with pytest.raises(ValueError, match="max must be larger than min"):
        it.histogram(x, 4, (1.0, 0.0))
    with pytest.raises(ValueError, match="must be positive"):
        it.histogram(x, 0, (0.0, 1.0))
    assert it.histogram(it.zeros(0), 3, (0.0, 1.0))[0].tolist() == [0, 0, 0]
