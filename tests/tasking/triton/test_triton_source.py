"""The text of a fused group and, on a GPU, that it computes what NumPy does."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same
from tests.tasking.triton.kernel_groups import SINGLE, chain, dividing, logs
from tests.tasking.words import claimed, operands, steps_of

import infinitensor as it
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.triton.triton_division import LEAST_CHECKED_SIZE
from infinitensor.tasking.triton.triton_launch import MapKernel
from infinitensor.tasking.triton.triton_source import Group, framed_source, map_source


def test_what_is_written_is_python() -> None:
    for n_axes, by_row, wide in ((1, True, False), (3, True, True), (3, False, False)):
        ast.parse(map_source(chain(3), n_axes, by_row, wide))


def test_scalars_are_arguments_so_that_no_value_is_compiled_in() -> None:
    source = map_source(chain(), 1, True, False)
    assert 'x2: "fp32"' in source
    assert "do_not_specialize=['x2']" in source


@pytest.mark.parametrize(
    ("name", "passed", "is_cast"),
    [
        ("float64", "fp64", False),
        ("float16", "fp32", True),
        ("int32", "i64", True),
        ("uint8", "u64", True),
        ("bool", "i64", True),
    ],
)
def test_scalars_keep_all_their_bits(name: str, passed: str, is_cast: bool) -> None:
    dtype = np.dtype(name)
    part = GroupStep(
        Term("equal", (Arg(0), Arg(1))), (dtype,) * 2, (("in", 0), ("in", 1)), dtype, 0
    )
    group = Group((part,), (Input(dtype, False, False), Input(dtype, True, False)), 1)
    source = map_source(group, 1, True, False)
    assert f'x1: "{passed}"' in source
    assert ("    x1 = " in source) == is_cast


def test_whole_blocks_need_no_masks_and_one_axis_no_division() -> None:
    assert "mask=" not in map_source(chain(), 1, True, False, whole=True)
    one, two = (map_source(chain(), n_axes, True, False) for n_axes in (1, 2))
    assert "//" not in one[one.index("def steps") :]
    assert "//" in two[two.index("def steps") :]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_whole_numbers_divide_as_numpys_do(dtype: str, always: None) -> None:
    """Of both signs, by nothing and by minus one."""
    ends = np.iinfo(dtype)
    some = np.array([ends.min, -7, -2, -1, 0, 1, 2, 7, ends.max], dtype)
    x, y = np.repeat(some, 9), np.tile(some, 9)
    same(lambda xp, a, b: [a // b + 1, a % b + 1], x, y, rtol=0)


def test_offsets_take_64_bits_only_where_asked() -> None:
    assert "tl.int64" in map_source(chain(), 2, True, True)
    assert "tl.int64" not in map_source(chain(), 2, True, False)


def test_where_arrays_are_aligned_unlike_nothing_is_taken_from_it() -> None:
    for source in (
        map_source(chain(), 1, True, False, False),
        framed_source(chain(), 2, False, False),
    ):
        assert "do_not_specialize=['p0', 'p1', 'p2'" in source
    assert "'p0'" not in map_source(chain(), 1, True, False)


def test_float32_divides_and_takes_roots_exactly() -> None:
    words = claimed("triton", SINGLE)
    group = Group(steps_of(words, SINGLE), (Input(SINGLE, False, False),) * 3, len(words))
    source = map_source(group, 1, True, False)
    assert "tl.div_rn(" in source
    assert "tl.sqrt_rn(" in source
    assert " / " not in source.replace(" // ", "")


def test_one_over_something_is_its_reciprocal() -> None:
    """Only where the number is 1, which shows at a launch."""
    part = GroupStep(
        Term("divide", (Arg(0), Arg(1))), (SINGLE,) * 2, (("in", 1), ("in", 0)), SINGLE, 0
    )
    group = Group((part,), (Input(SINGLE, False, False), Input(SINGLE, True, False)), 1)
    assert group.numerators == [1]
    assert "tl.div_rn(x1, x0)" in map_source(group, 1, True, False)
    assert "libdevice.rcp_rn(x0)" in map_source(
        replace(group, ones=frozenset((1,))), 1, True, False
    )
    swapped = Group((replace(part, sources=(("in", 0), ("in", 1))),), group.inputs, 1)
    assert swapped.numerators == []


def test_long_groups_check_their_divisions_in_the_end() -> None:
    group = dividing(16)
    assert group.n_divisions == 3
    source = map_source(group, 1, True, False, late=True)
    ast.parse(source)
    short, exact = source.split("if is_far:")
    assert "quotient(x0, x1)" in short
    assert "div_rn" not in short
    assert "tl.div_rn(x0, x1)" in exact
    assert source.count("tl.store(") == 2 * group.n_outs
    # what may not be small: the numerator, and each result
    assert short.count("tl.abs(") == 4


def test_a_logarithm_of_what_is_checked_does_not_look_for_small_numbers() -> None:
    source = map_source(logs(16), 1, True, False, late=True)
    ast.parse(source)
    short, exact = source.split("if is_far:")
    assert "t0 = quotient(x0, x1)" in short
    # a negative quotient is computed again, with its own logarithm
    assert "t1 = t0\n" in short
    assert f"libdevice.log(tl.maximum(t0, {LEAST_CHECKED_SIZE}))" in short
    assert "libdevice.log(x1)" in short
    assert short.count("tl.abs(") == 2  # the numerator and the second quotient
    assert "tl.maximum" not in exact
    assert "tl.maximum" not in map_source(logs(16), 1, True, False)


@pytest.mark.gpu
def test_plain_arithmetic_has_numpys_bits_and_subnormals() -> None:
    import torch

    x, y, _ = operands(SINGLE)
    tiles = [torch.from_numpy(v).cuda() for v in (x, y)]
    out = torch.empty(64, device="cuda")
    for scalar in (0.3, 1e-40, 7):  # no other code for other scalars
        MapKernel(chain())([*tiles, scalar], [out], (64,))
        with np.errstate(all="ignore"):
            wanted = x * y + np.float32(scalar)
        np.testing.assert_array_equal(out.cpu().numpy(), wanted)


@pytest.mark.gpu
def test_one_over_something_has_numpys_bits() -> None:
    """Normal, subnormal and special denominators; then another number over the same."""
    bits = np.random.default_rng(0).integers(0, 2**32, 1 << 20, dtype=np.uint32)
    x = bits.view(np.float32)
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38]
    with it.init("cuda:0"), np.errstate(all="ignore"):
        given = it.asarray(x)
        for number in (1, 1.0, 3, -1, 1):
            found = (number / given + 0).numpy()
            wanted = np.float32(number) / x + np.float32(0)
            is_number = ~np.isnan(wanted)
            assert (np.isnan(found) == ~is_number).all()
            found, wanted = (v.view(np.uint32)[is_number] for v in (found, wanted))
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1 << 20, (1 << 20) + 3])
def test_divisions_that_are_checked_in_the_end_have_numpys_bits(n: int) -> None:
    """Blocks of ordinary numbers, of any bits at all, and of both."""
    import torch

    random = np.random.default_rng(0)
    x, y = (random.integers(0, 2**32, n, dtype=np.uint32).view(np.float32) for _ in range(2))
    half = n // 2
    for v in (x, y):
        v[:half] = random.uniform(0.1, 2, half)
        v[1000:half:5000] = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38])
    tiles = [torch.from_numpy(v).cuda() for v in (x, y)]
    outs = [torch.empty(n, device="cuda") for _ in range(4)]
    MapKernel(dividing(16))(tiles, outs, (n,))
    with np.errstate(all="ignore"):
        wanted = [x / y, 1 / x, np.sqrt(x), x + y]
    for out, one in zip(outs, wanted, strict=True):
        found, is_number = out.cpu().numpy(), ~np.isnan(one)
        assert (np.isnan(found) == ~is_number).all()
        found, one = (v[is_number].view(np.uint32) for v in (found, one))
        np.testing.assert_array_equal(found, one)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1 << 20, (1 << 20) + 3])
def test_logarithms_of_checked_quotients_have_the_bits_of_others(n: int) -> None:
    """Blocks of ordinary numbers, some of them with signs, of any bits at all, and of both."""
    import torch

    random = np.random.default_rng(1)
    x, y = (random.integers(0, 2**32, n, dtype=np.uint32).view(np.float32) for _ in range(2))
    half = n // 2
    for v in (x, y):
        v[:half] = random.uniform(0.1, 2, half)
        v[1000:half:5000] = random.choice([-1.0, -0.0, np.inf, np.nan, 1e-45, 1e-17, 1e-20, 3e38])
    tiles = [torch.from_numpy(v).cuda() for v in (x, y)]
    made = []
    for n_steps in (16, 4):  # the short group checks each division
        outs = [torch.empty(n, device="cuda") for _ in range(3)]
        MapKernel(logs(n_steps))(tiles, outs, (n,))
        made.append([out.cpu().numpy() for out in outs])
    for found, wanted in zip(*made, strict=True):
        is_number = ~np.isnan(wanted)
        assert (np.isnan(found) == ~is_number).all()
        found, wanted = (v[is_number].view(np.uint32) for v in (found, wanted))
        np.testing.assert_array_equal(found, wanted)
    assert np.isfinite(made[0][0][:half]).mean() > 0.99


@pytest.mark.gpu
def test_fused_rounding_is_near_what_float64_has(
    monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    monkeypatch.setattr(it.config, "rounding", "fused")
    x, y = (np.random.default_rng(k).uniform(0.1, 2, 100_003).astype("f4") for k in range(2))

    def f(xp: Any, x: Any, y: Any) -> list[Any]:
        return [
            x / y,
            1 / x,
            xp.sqrt(x),
            x * y + 3,
            xp.exp(x) / xp.sqrt(y) + xp.log(x + 1) * y,
            xp.exp(40 * x - 40) * 2,
        ]

    with it.init("cuda:0"):
        made = it.compute(*f(it, it.asarray(x), it.asarray(y)))
        exact = f(np, x.astype("f8"), y.astype("f8"))
        for found, wanted, most in zip(made, exact, [2, 2, 2, 0.6, 8, 42 + 40 + 2], strict=True):
            units = np.abs(found.numpy() - wanted) / np.spacing(wanted.astype("f4"))
            assert units.max() <= most
