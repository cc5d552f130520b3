"""Fourier transforms through cuFFT: its plans, what is left to torch, and NumPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same, some

from infinitensor.ops.signal import fft_cuda

torch = pytest.importorskip("torch")


class Library:
    """cuFFT as `fft_cuda` calls it: notes plans, hands out handles."""

    def __init__(self, failing: str = "") -> None:
        self.made: list[tuple[int, ...]] = []
        self.destroyed: list[int] = []
        self.failing = failing

    def cufftCreate(self, handle: Any) -> int:
        handle._obj.value = len(self.made) + 100
        return int(self.failing == "create")

    def cufftSetAutoAllocation(self, handle: Any, wanted: int) -> int:
        assert wanted == 0, "the work space is the caller's"
        return 0

    def cufftMakePlanMany64(self, handle: Any, rank: int, n: Any, *layout: Any) -> int:
        _, _, distance, _, _, out_distance, kind, n_lines, work = layout
        found = (n[0], distance.value, out_distance.value, kind, n_lines.value)
        self.made.append((rank, *found))
        work._obj.value = 77
        return int(self.failing == "plan")

    def cufftDestroy(self, handle: Any) -> None:
        self.destroyed.append(handle.value)


@pytest.fixture(autouse=True)
def no_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fft_cuda, "_plans", {})
    monkeypatch.setattr(fft_cuda, "_set", {})


def test_a_plan_of_lines_is_made_once_and_says_its_work_space() -> None:
    library = Library()
    handle, n_bytes = fft_cuda._plan(library, 0, fft_cuda.R2C, 12, 5, 7)
    assert fft_cuda._plan(library, 0, fft_cuda.R2C, 12, 5, 7) == (handle, n_bytes)
    assert n_bytes == 77
    assert library.made == [(1, 12, 12, 7, fft_cuda.R2C, 5)]
    for other in ((0, fft_cuda.C2C, 12, 5, 12), (1, fft_cuda.R2C, 12, 5, 7)):
        assert fft_cuda._plan(library, *other)[0].value != handle.value


def test_more_plans_than_are_kept_take_the_place_of_all_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    library = Library()
    for n in range(1, fft_cuda.MOST_PLANS + 2):
        fft_cuda._plan(library, 0, fft_cuda.Z2Z, n, 1, n)
    assert library.destroyed == [100 + k for k in range(fft_cuda.MOST_PLANS)]
    assert len(fft_cuda._plans) == 1


@pytest.mark.parametrize("failing", ["create", "plan"])
def test_a_plan_that_cufft_refuses_is_none_and_not_kept(failing: str) -> None:
    assert fft_cuda._plan(Library(failing), 0, fft_cuda.C2C, 8, 1, 8) is None
    assert fft_cuda._plans == {}


@pytest.mark.parametrize(
    ("x", "word", "axis", "n"),
    [
        (torch.zeros(4, 6, dtype=torch.float16), "rfft", 1, 6),
        (torch.zeros(4, 6), "fft", 1, 6),
        (torch.zeros(4, 6, dtype=torch.complex64), "fft", 0, 4),
        (torch.zeros(4, 6, dtype=torch.complex64), "fft", 1, 5),
        (torch.zeros(6, 4, dtype=torch.complex64).T, "ifft", 1, 6),
        (torch.zeros(0, 6, dtype=torch.complex128), "fft", 1, 6),
    ],
    ids=["half", "real", "columns", "cut", "transposed", "empty"],
)
def test_other_lines_are_left_to_torch(
    x: Any, word: str, axis: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    monkeypatch.setattr(fft_cuda, "_library", lambda: pytest.fail("cuFFT was asked for"))
    assert not fft_cuda.transform_into(x, torch.zeros_like(x), word, axis, n, "backward")


def test_without_cufft_or_a_gpu_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = torch.ones(3, 8), torch.zeros(3, 5, dtype=torch.complex64)
    assert not fft_cuda.transform_into(x, out, "rfft", 1, 8, "backward")
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    monkeypatch.setattr(fft_cuda, "_library", lambda: None)
    assert not fft_cuda.transform_into(x, out, "rfft", 1, 8, "backward")
    assert not out.any()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_are_numpys(norm: Any, dtype: str) -> None:
    def f(xp: Any, x: Any, z: Any) -> list[Any]:
        return [
            xp.fft.fft(z, norm=norm), xp.fft.ifft(z, norm=norm), xp.fft.rfft(x, norm=norm),
            xp.fft.fft(z[0], norm=norm), xp.fft.rfft(x, axis=0, norm=norm),
        ]  # fmt: skip

    x = some(300, 500).astype(dtype)
    z = (x + 1j * x[::-1]).astype(np.result_type(dtype, "c8"))
    same(f, x, z, rtol=1e-3 if dtype == "f4" else 1e-10)
