"""Generated Triton: the text that is written and, on a GPU, that it computes what NumPy does."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.tasking.words import claimed, operands, steps_of

import infinitensor as it
from infinitensor import jit
from infinitensor.ir.mesh import Target, Tools
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import WORDS
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported
from infinitensor.tasking.triton import triton_group
from infinitensor.tasking.triton.triton_division import LEAST_CHECKED_SIZE
from infinitensor.tasking.triton.triton_launch import MOST_KERNELS, MapKernel, merged_axes
from infinitensor.tasking.triton.triton_reduce import Reduction, chunk_source, merge_source
from infinitensor.tasking.triton.triton_source import Group, framed_source, map_source

SINGLE, LONG = np.dtype(np.float32), np.dtype(np.int64)


def one_word(word: str, dtype: np.dtype[Any], made: np.dtype[Any], stored: int) -> GroupStep:
    n = WORDS[word].n_args
    args = tuple(Arg(i) for i in range(n))
    return GroupStep(Term(word, args), (dtype,) * n, (("in", 0), ("in", 1))[:n], made, stored)


def chain(n_parts: int = 1) -> Group:
    tree = Term("add", (Term("multiply", (Arg(0), Arg(1))), Arg(2)))
    sources = (("in", 0), ("in", 1), ("in", 2))
    part = GroupStep(tree, (SINGLE,) * 3, sources, SINGLE, 0)
    array, scalar = Input(SINGLE, False, False), Input(SINGLE, True, False)
    return Group((part,) * n_parts, (array, array, scalar), 1)


# the text --------------------------------------------------------------------------------------


def test_what_several_steps_read_alike_is_one_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tensor that is read as it is, and by its rows and columns: three, however often."""
    started: list[int] = []
    monkeypatch.setattr(jit.Launch, "__call__", lambda self, tiles, *_: started.append(len(tiles)))
    monkeypatch.setattr(it.config, "compile", "always")
    monkeypatch.setattr(it.config, "small_elements", 0)
    with fake_gpu(plans_triton=True), it.init("cuda:0"):
        x, square = it.asarray(np.ones(40)), it.asarray(np.ones((40, 40)))
        it.compute(square * x + x[:, None] * square - (square / x[:, None]) * x)
    assert started == [4]


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


def test_the_types_of_arguments_are_what_a_kernel_says() -> None:
    run = jit.load('def empty(x: "fp64"):\n    pass\n\n\nrun = empty\n')
    assert run.__annotations__ == {"x": "fp64"}


def test_whole_blocks_need_no_masks_and_one_axis_no_division() -> None:
    assert "mask=" not in map_source(chain(), 1, True, False, whole=True)
    assert "//" not in map_source(chain(), 1, True, False)
    assert "//" in map_source(chain(), 2, True, False)


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
    turned = Group((replace(part, sources=(("in", 0), ("in", 1))),), group.inputs, 1)
    assert turned.numerators == []


def dividing(n_steps: int) -> Group:
    """Quotients, reciprocals and roots, stored each, and sums that make a group long."""
    words = ["divide", "reciprocal", "sqrt", *["add"] * (n_steps - 3)]
    parts = [one_word(word, SINGLE, SINGLE, min(k, 3)) for k, word in enumerate(words)]
    parts[3:-1] = [replace(part, stored=-1) for part in parts[3:-1]]
    return Group(tuple(parts), (Input(SINGLE, False, False),) * 2, 4)


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


def logs(n_steps: int) -> Group:
    """Logarithms of a quotient and of a denominator, stored, and sums that make a group long."""
    divided = one_word("divide", SINGLE, SINGLE, -1)
    of = [replace(one_word("log", SINGLE, SINGLE, k), sources=(("in", 1),)) for k in range(2)]
    of[0] = replace(of[0], sources=(("step", 0),))
    # the quotient is divided again: as a numerator it is checked already
    again = replace(divided, sources=(("step", 0), ("in", 1)), stored=2)
    rest = [one_word("add", SINGLE, SINGLE, -1)] * (n_steps - 4)
    return Group((divided, *of, again, *rest), (Input(SINGLE, False, False),) * 2, 3)


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


def with_numbers(n_steps: int) -> Group:
    """An operand times one number after another."""
    parts = [
        replace(one_word("multiply", SINGLE, SINGLE, -1), sources=((*before,), ("in", k + 1)))
        for k, before in enumerate([("in", 0), *(("step", j) for j in range(n_steps - 1))])
    ]
    parts[-1] = replace(parts[-1], stored=0)
    inputs = (Input(SINGLE, False, False), *[Input(SINGLE, True, False)] * n_steps)
    return Group(tuple(parts), inputs, 1)


def launched(
    monkeypatch: pytest.MonkeyPatch, group: Group, *numbers: list[float]
) -> tuple[list[jit.Launch], list[Any]]:
    """The launches of a kernel with these scalars, and what each was given for them."""
    import torch

    found: list[jit.Launch] = []
    given: list[Any] = []

    def note(self: jit.Launch, tiles: Any, scalars: Any) -> None:
        found.append(self)
        given.append(list(scalars))

    monkeypatch.setattr(jit.Launch, "__call__", note)
    kernel, x = MapKernel(group), torch.ones(64)
    for each in numbers:
        kernel([x, *map(np.float32, each)], [x], (64,))
    return found, given


def test_a_long_group_holds_equal_numbers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [2.0, 3.0, 2.0, 0.0, -0.0, np.nan, np.nan, *np.arange(4.0, 12)]
    numbers.append(3.0)
    found, given = launched(monkeypatch, with_numbers(16), numbers)
    ast.parse(found[0].source)
    assert "t2 = t1 * x1\n" in found[0].source
    assert "t15 = t14 * x2\n" in found[0].source
    for k in range(3, 15):  # zeros of two signs and what is no number are held each
        assert f"t{k} = t{k - 1} * x{k + 1}\n" in found[0].source
    np.testing.assert_array_equal(given[0], np.array(numbers, "f4"))  # all of them are passed
    short, _ = launched(monkeypatch, with_numbers(4), [2.0] * 4)
    assert "t3 = t2 * x4\n" in short[0].source


def test_numbers_that_come_and_go_make_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = [[1.0 + (j if j != k else 0) for j in range(16)] for k in range(1, 12)]
    found, _ = launched(monkeypatch, with_numbers(16), *choices)
    assert len({launch.source for launch in found}) == MOST_KERNELS + 1
    assert "t15 = t14 * x16\n" in found[-1].source


def started(monkeypatch: pytest.MonkeyPatch, program: Any) -> list[jit.Launch]:
    """The launches of a program over a million numbers."""
    found: list[jit.Launch] = []
    monkeypatch.setattr(jit.Launch, "__call__", lambda self, *_: found.append(self))
    with fake_gpu(plans_triton=True), it.init("cuda:0"):
        it.compute(program(it.asarray(some(1 << 20))))
    return found


def long_program(x: Any) -> Any:
    y = it.sqrt(x / (x + 2)) / x
    for k in range(14):
        y = y * x + k
    return y


def test_only_long_groups_check_their_divisions_together(
    monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    [late] = started(monkeypatch, long_program)
    assert "if is_far:" in late.source
    [short] = started(monkeypatch, lambda x: x / (x + 2) / x)
    assert "tl.div_rn(" in short.source
    assert "is_far" not in short.source


def test_fused_rounding_reaches_the_text_the_compiler_and_the_plan(
    monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    [exact] = started(monkeypatch, long_program)
    key = it.config.key()
    monkeypatch.setattr(it.config, "rounding", "fused")
    [fused] = started(monkeypatch, long_program)
    [summed] = started(monkeypatch, lambda x: (x / (x + 2)).sum())[:1]
    assert "enable_fp_fusion" not in exact.how
    for launch in (fused, summed):
        assert launch.how["enable_fp_fusion"] is True
        assert "div_rn" not in launch.source
        assert "quotient" not in launch.source
    assert it.config.key() != key


def test_powers_of_e_are_triton_s_own_where_rounding_is_fused(
    monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    for rounding, name in (("numpy", "libdevice.exp("), ("fused", "tl.exp(")):
        monkeypatch.setattr(it.config, "rounding", rounding)
        [single] = started(monkeypatch, lambda x: it.exp(x * 2 + 1))
        assert name in single.source
        [double] = started(monkeypatch, lambda x: it.exp(x.astype("f8") * 2 + 1))
        assert "libdevice.exp(" in double.source


def test_a_rounding_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"config\.rounding = .exact.: write"):
        monkeypatch.setattr(it.config, "rounding", "exact")


def test_on_cpus_fused_rounding_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = some(1 << 16), some(1 << 16) + 9
    found = []
    for rounding in ("numpy", "fused"):
        monkeypatch.setattr(it.config, "rounding", rounding)
        monkeypatch.setattr(it.config, "compile", "always")
        with it.init("cpu"):
            a, b = it.asarray(x), it.asarray(y)
            found.append((it.sqrt(b) / (a * b + 0.3) - a * a).numpy())
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    ("word", "kind", "match"),
    [
        ("floor_divide", np.int64, "floor_divide of int64"),
        ("add", np.complex128, "complex128"),
        ("left_shift", np.int32, "left_shift of int32"),
        ("add", np.bool_, "add of bool"),
    ],
)
def test_what_triton_does_otherwise_is_refused(word: str, kind: Any, match: str) -> None:
    dtype = np.dtype(kind)
    part = GroupStep(Term(word, (Arg(0), Arg(1))), (dtype,) * 2, (("in", 0), ("in", 1)), dtype, 0)
    with pytest.raises(Unsupported, match=match):
        MapKernel(Group((part,), (Input(dtype, False, False),) * 2, 1))


def test_a_cast_to_unsigned_integers_is_refused() -> None:
    part = GroupStep(Term("cast", (Arg(0),)), (SINGLE,), (("in", 0),), np.dtype(np.uint8), 0)
    with pytest.raises(Unsupported, match="cast from float32 to uint8"):
        MapKernel(Group((part,), (Input(SINGLE, False, False),), 1))


def test_sums_of_floats_are_merged_by_pairs_and_exact_ones_at_once() -> None:
    group = chain()
    total = chunk_source(group, [Reduction("sum", ("step", 0), SINGLE)], 8, 4, False)
    assert total.count("tl.reduce(tl.reshape") == 3
    most = chunk_source(group, [Reduction("max", ("step", 0), SINGLE)], 8, 4, False)
    assert "tl.reshape" not in most
    for source in (total, most, merge_source([Reduction("moments", ("in", 0), SINGLE)], 4, 2)):
        ast.parse(source)


def test_axes_that_lie_alike_are_walked_as_one() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, 5, 6)
    assert merged_axes((4, 5, 6), [x, x]) == [(120, [1, 1], False)]
    row = torch.zeros(6)
    assert merged_axes((4, 5, 6), [x, row]) == [(20, [6, 0], False), (6, [1, 1], False)]
    assert merged_axes((4, 5, 6), [x], (0, 1)) == [(20, [6], True), (6, [1], False)]
    assert merged_axes((1, 1), [x[:1, :1, 0]]) == []


def test_without_triton_groups_run_step_by_step_and_say_so() -> None:
    def steps(ins: list[Any], outs: list[Any], i: int) -> None:
        outs.append(i)

    without = Target("cuda", Tools(has_triton=False))
    run, eager = triton_group.generate_or_steps(
        lambda: pytest.fail("asked for code"), steps, without
    )
    assert eager
    assert run is steps


def test_what_triton_fails_on_is_said_once_and_runs_step_by_step() -> None:
    class Broken(Exception):
        __module__ = "triton.errors"

    def broken(ins: list[Any], outs: list[Any], i: int) -> None:
        raise Broken("no room")

    def steps(ins: list[Any], outs: list[Any], i: int) -> None:
        outs.append(i)

    run, eager = triton_group.generate_or_steps(lambda: broken, steps, Target("cuda"))
    assert not eager
    made: list[Any] = []
    with pytest.warns(RuntimeWarning, match="no room; the group runs step by step"):
        run([], made, 3)
    run([], made, 4)
    assert made == [3, 4]


def test_a_source_is_loaded_once_and_can_be_read_back() -> None:
    import inspect

    source = "def run(x):\n    return x + 1\n"
    assert jit.load(source) is jit.load(source)
    assert inspect.getsource(jit.load(source)) == source


# on a GPU --------------------------------------------------------------------------------------


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
@pytest.mark.parametrize("whole", [512 * 8, 512 * 8 + 3])
def test_scalars_of_64_bits_reach_a_kernel_with_all_of_them(whole: int) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, whole)
    n = np.arange(whole)
    with it.init("cuda:0"):
        before, it.config.compile = it.config.compile, "always"
        try:
            scaled, moved = it.compute(it.asarray(x) * 0.1, it.asarray(n) * 3 + (2**40 + 1))
            for _ in range(20):  # many steps: those of whole blocks are not masked
                scaled = scaled * 0.7 + 0.1
            scaled, moved = scaled.numpy(), moved.numpy()
        finally:
            it.config.compile = before
    wanted = x * 0.1
    for _ in range(20):
        wanted = wanted * 0.7 + 0.1
    np.testing.assert_array_equal(scaled, wanted)
    np.testing.assert_array_equal(moved, n * 3 + (2**40 + 1))


@pytest.mark.gpu
def test_what_several_steps_read_alike_is_read_once_and_other_parts_are_not(always: None) -> None:
    x = np.random.default_rng(1).uniform(1, 2, 300)
    square = np.random.default_rng(2).uniform(1, 2, (300, 300))

    def program(xp: Any, x: Any, square: Any) -> list[Any]:
        down = (x * 2)[:, None]
        return [square * x + down * x - square / x, square[1:] + square[:-1] * square[1:]]

    same(program, x, square, rtol=1e-14)


@pytest.mark.gpu
def test_a_kernel_starts_again_on_other_memory_and_streams() -> None:
    import torch

    launch = MapKernel(chain())
    x, y = (torch.rand(1 << 12, device="cuda") for _ in range(2))
    other: Any = torch.cuda.Stream
    for k in range(4):
        stream = other() if k % 2 else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            out = torch.empty_like(x)
            launch([x, y, float(k)], [out], (1 << 12,))
        stream.synchronize()
        assert torch.equal(out, x * y + k)
        x = x.clone()


def same(f: Any, *arrays: np.ndarray, rtol: float = 1e-5, devices: str = "cuda:0") -> Any:
    """A program over tensors gives what it gives over arrays; what was counted."""
    with it.init(devices), np.errstate(all="ignore"):
        wanted = f(np, *(x.copy() for x in arrays))
        made = f(it, *(it.asarray(x) for x in arrays))
        it.compute(*made)
        for mine, theirs in zip(made, wanted, strict=True):
            got = mine.numpy()
            assert got.dtype == theirs.dtype
            assert got.shape == np.shape(theirs)
            size = np.abs(theirs, where=np.isfinite(theirs), out=np.zeros(np.shape(theirs)))
            np.testing.assert_allclose(got, theirs, rtol, rtol * size.max(initial=0.01))
        return it.stats()


def some(*shape: int, kind: str = "f4") -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(kind)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (3, 1), (2, 3, 4), (0, 3), (700, 300)])
def test_any_shape_stride_and_broadcast(shape: tuple[int, ...], always: None) -> None:
    def f(xp: Any, x: Any, row: Any) -> list[Any]:
        return [x.T * 2 + row.T, (x - row) * x, x[..., ::2] * 2 - 1 if x.ndim else x * 2 - 1]

    row = some(*shape[:-1], 1) if shape else some()
    assert same(f, some(*shape), row)["eager_fallbacks"] == 0


@pytest.mark.gpu
@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0*3"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 1), (1, 2), (0, 2)])
def test_reductions_end_a_group_or_stand_alone(axis: Any, devices: str, always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        y, z = x * 2 + 1, x[1:, ::2, 1:-1] * 3 - 1
        alone = [x.sum(axis), x.mean(axis), x.var(axis), x.min(axis), x.max(axis), x.std(axis)]
        return [
            *alone,
            z.sum(axis),
            (x > 0).any(axis),
            (x > -9).all(axis),
            y,
            y.max(axis),
        ]

    counts = same(f, some(40, 30, 70), devices=devices)
    assert (counts["eager_fallbacks"] == 0) == (axis != (0, 2))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["f2", "f8", "i1", "i4", "u1", "u4", "i8", "?"])
def test_reductions_in_every_dtype(kind: str, always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        made = [x.sum(0), x.sum(), x.any(1), x.all(), xp.count_nonzero(x, 0), x.mean(1)]
        return made if kind == "?" else [*made, x.max(0), x.min(), abs(x).max(1)]

    same(f, (some(300, 70) * 20).astype(kind), rtol=1e-2 if kind == "f2" else 1e-5)


@pytest.mark.gpu
def test_nothing_and_nan_reduce_as_in_numpy(always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [(x[:0] * 2 + 1).sum(), (x[:0] + 1).sum(0), x.max(0), x.min(), (x * 2).sum(1)]

    x = some(30, 20)
    x[3, 4], x[5, 6] = np.nan, np.inf
    same(f, x)


@pytest.mark.gpu
def test_mean_and_variance_are_one_task(always: None) -> None:
    counts = same(lambda xp, x: [x.mean(0), x.var(0), x.max(0)], some(5000, 50))
    assert counts["tasks"] == 1


@pytest.mark.gpu
@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0*2"])
def test_writes_read_what_was_there_before(devices: str, always: None) -> None:
    def f(xp: Any, x: Any, y: Any) -> list[Any]:
        for _ in range(3):
            inner = x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
            x[1:-1, 1:-1] = inner * 0.2
        x[1:] = x[:-1] * 2 + y[1:]  # all of it is read before any of it is written
        kept = x + 1
        x[::2] = x[::2] * 3 - y[::2]
        y[3:9, 2:5] = (y[2:8, 2:5] + y[4:10, 2:5]) * 0.5
        part = y[5:40]
        part[1:-1] = (part[:-2] + part[2:]) * 0.5
        y[0] = x[1] * 2 + 1
        return [x, y, kept, x.sum(0)]

    same(f, some(60, 50), some(60, 50) * 2, devices=devices)


@pytest.mark.gpu
def test_a_stencil_is_one_task_a_step(always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        x[1:-1] = (x[1:-1] + x[:-2] + x[2:]) * 0.25
        return [x]

    assert same(f, some(100, 30))["tasks"] == 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(5000,), (40, 300), (7, 9, 260), (1, 1500)])
def test_a_stencil_and_what_stays_around_it(
    shape: tuple[int, ...], dtype: Any, always: None
) -> None:
    def f(xp: Any, x: Any, row: Any) -> list[Any]:
        inner = tuple(slice(1, -1) if n > 2 else slice(0, 1) for n in shape)
        before = (*inner[:-1], slice(0, -2))
        after = (*inner[:-1], slice(2, None))
        x[inner] = x[before] + x[after] * 2 - row[1:-1]
        x[..., 3:] = x[..., :-3] + 1
        x[..., :-5] = x[..., 5:] * 3
        return [x]

    given = (some(*shape) * 10).astype(dtype)
    counted = same(f, given, (some(shape[-1]) * 10).astype(dtype))
    assert counted["tasks"] == 3 or shape[0] == 1  # a row is no box of its table


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("n", [1 << 16, 100_001, 8192 * 9])
def test_running_sums_of_long_lines(n: int, dtype: Any) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [xp.cumsum(x), xp.cumsum(x[::-1] * 2), xp.cumsum(x * 0 - 0.0)]

    given = (np.random.default_rng(0).random(n) * 9 - 4).astype(dtype)
    same(f, given, rtol=1e-3 if dtype == np.float32 else 1e-9)
    with it.init("cuda:0"):
        twice = [it.cumsum(it.asarray(given)).numpy().tobytes() for _ in range(2)]
        zeros = it.cumsum(it.asarray(np.full(n, -0.0))).numpy()
    assert twice[0] == twice[1]
    assert np.signbit(zeros).all()


@pytest.mark.gpu
def test_evaluations_that_follow_each_other_read_what_the_last_ones_made() -> None:
    """An evaluation is put away while its kernels run: its buffers are handed out again."""
    with it.init("cuda:0"):
        x = it.asarray(np.ones(1 << 22, np.float32))
        for k in range(30):
            y = x * 2 - 1
            it.compute(y)
            del y
            x = x + 1
            it.compute(x)
            assert float(x[k]) == k + 2


@pytest.mark.gpu
def test_a_stopped_version_that_is_kept_is_copied_first(always: None) -> None:
    with it.init("cuda:0"):
        x = it.asarray(some(50, 40))
        before = x.copy()
        view = x.torch()
        x[1:] = x[:-1] * 2 + 1
        np.testing.assert_array_equal(x.numpy()[1:], before.numpy()[:-1] * 2 + 1)
        np.testing.assert_array_equal(view.cpu().numpy(), before.numpy())


@pytest.mark.gpu
def test_bits_do_not_depend_on_the_tiles(monkeypatch: pytest.MonkeyPatch, always: None) -> None:
    from infinitensor.partition import tile_shape

    monkeypatch.setitem(tile_shape.LEAF_ELEMENTS, "cuda", 1 << 12)
    x = some(3000, 37)
    found = set()
    for tile in (1 << 12, 1 << 14, 1 << 16, 0):
        monkeypatch.setattr(it.config, "tile_elements", tile)
        with it.init("cuda:0"):
            given = it.asarray(x)
            made = [given.sum(), given.sum(0), given.var(0), (given * 2 + 1).sum(), given.std()]
            found.add(b"".join(m.numpy().tobytes() for m in made))
    assert len(found) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, always: None) -> None:
    def f(xp: Any, *arrays: Any) -> list[Any]:
        rng = np.random.default_rng(seed)
        pool = list(arrays)
        for _ in range(12):
            a, b = (pool[k] for k in rng.integers(0, len(pool), 2))
            match rng.integers(0, 8):
                case 0:
                    pool.append(a * np.float32(0.5) + b)
                case 1:
                    pool.append(xp.where(a > b, a, xp.sqrt(xp.abs(b))))
                case 2:
                    pool.append(a - b.mean(0))
                case 3:
                    pool.append(xp.maximum(a, b.max(1, keepdims=True)) * np.float32(0.25))
                case 4:
                    pool.append((a[::-1] + b) / 2)
                case 5 if a is not arrays[0]:
                    a[1:-1] = (a[:-2] + b[2:]) * np.float32(0.5)
                case 6 if a is not arrays[0]:
                    a[:, 2:] = b[:, 2:] * 2 - a[:, :-2]
                case _:
                    pool.append(xp.exp(-xp.abs(a)) * b)
        return [*pool[-4:], pool[-1].sum(1), pool[-2].var(0)]

    same(f, some(41, 29), some(41, 29) + 1, some(41, 29) * 2, rtol=1e-3)


@pytest.mark.gpu
def test_what_is_not_generated_is_counted(always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [(x // 3) * 2 + 1]

    assert same(f, np.arange(1, 50))["eager_fallbacks"] == 1


@pytest.mark.gpu
def test_masks_transforms_and_sorts_write_straight_into_their_output() -> None:
    def f(xp: Any, x: Any, z: Any) -> list[Any]:
        flat = x.reshape(-1)
        return [
            flat[flat > 0.5], x[x > 9], x[x > -9], xp.fft.fft(z), xp.fft.ifft(z, norm="ortho"),
            xp.fft.rfft(x), xp.fft.fft(z, norm="forward"), xp.sort(flat), xp.sort(x, 0),
            xp.cumsum(flat), xp.cumsum(x, 0),
        ]  # fmt: skip

    x = some(300, 500)
    same(f, x, (x + 1j * x[::-1]).astype("c8"), rtol=1e-3)


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
