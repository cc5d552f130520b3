"""Small calls: NumPy's results and errors; what is in doubt is handed over."""

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.small import small_calls
from infinitensor.config import config

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are small here in strict runs too."""
    monkeypatch.setattr(config, "small_elements", 65_536)


class Hashing(type):
    """A type whose hash is the user's own code."""

    def __hash__(cls) -> int:
        raise RuntimeError("no hash")


class Unhashable(metaclass=Hashing):
    """No number, and its type is in no set."""


def test_an_error_of_a_foreign_type_is_its_own() -> None:
    tensor = it.asarray(np.arange(3.0)) + 0
    other: Any = Unhashable()
    for call in (operator.add, operator.iadd, operator.lt):
        with pytest.raises(RuntimeError, match="no hash"):
            call(tensor, other)
    with pytest.raises(RuntimeError, match="no hash"):
        tensor[0] = other


@pytest.mark.parametrize("limit", [1e5, np.int64(100), 1 << 70])
def test_a_limit_that_is_no_plain_integer_works(
    limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "small_elements", limit)
    tensor = it.asarray(np.arange(4.0)) + 0
    tensor[1] = 5.0
    tensor += 1
    assert (tensor[1:] * 2).tolist() == [12.0, 6.0, 8.0]


def test_ctrl_c_within_a_small_call_is_not_lost() -> None:
    calls = []

    def stopped(_: Any) -> Any:
        calls.append(1)
        raise KeyboardInterrupt("stop")

    with pytest.raises(KeyboardInterrupt, match="stop"):
        small_calls.call_numpy(stopped, None, (it.ones(3) + 1,), {})
    assert len(calls) == 1


def test_a_dot_with_a_scalar_has_the_same_zeros_in_every_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values, zero = np.array([-1.0, 1.0]), np.array(0.0)
    small = it.dot(it.asarray(values), it.asarray(zero)).numpy()
    monkeypatch.setattr(config, "small_elements", 0)
    strict = it.dot(it.asarray(values), it.asarray(zero)).numpy()
    assert small.tobytes() == strict.tobytes()


@pytest.mark.parametrize("limit", [1e5, np.int64(100), 1 << 70])
@pytest.mark.parametrize("name", ["small_elements", "max_recorded_nodes", "max_recorded_bytes"])
def test_known_calls_are_recorded_under_any_limit(
    name: str, limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = it.ones((300, 300))
    monkeypatch.setattr(config, name, limit)
    for _ in range(3):
        made = tensor * 2.0 + tensor
    assert float(made[7, 7]) == 3.0


@pytest.mark.parametrize("name", ["concatenate", "concat", "stack"])
def test_small_tensors_are_joined_by_numpy(name: str) -> None:
    a, b = np.arange(12.0).reshape(3, 4), np.arange(12).reshape(4, 3).T
    theirs = getattr(np, name)
    ours = getattr(it, name)
    with it.init("cpu"):
        x, y = it.asarray(a), it.asarray(b.T.copy()).T
        for args, options in (((0,), {}), ((), {"axis": 1}), ((-1,), {}), ((), {})):
            it.stats(reset=True)
            made = ours([x, y], *args, **options)
            assert it.stats()["small_calls"] == 1
            np.testing.assert_array_equal(
                made.numpy(), theirs([a, b], *args, **options), strict=True
            )
        only = ours((x,))
        only[0] = 7
        np.testing.assert_array_equal(x.numpy(), a)  # it has memory of its own
        np.testing.assert_array_equal(only.numpy()[0], np.full(only.shape[1:], 7))
        mixed = ours([x, b])  # an ndarray among them
        np.testing.assert_array_equal(mixed.numpy(), theirs([a, b]))
        with pytest.raises(ValueError, match="axis 5 is out of bounds"):
            ours([x, y], axis=5)
        with pytest.raises(ValueError, match=r"shape|size"):
            ours([x, y[:, :1], y[:2]], axis=1)


CALLS: dict[str, tuple[tuple[Any, ...], ...]] = {
    **dict.fromkeys(
        ("sum", "mean", "var", "std", "count_nonzero", "median"), ((), (0,), (1,), (None,))
    ),
    **dict.fromkeys(("exp", "log1p", "tanh", "arctan"), ((),)),
    "linalg.norm": ((), (None, 1), (1,), (None, None, True)),
    "cumsum": ((0,), (1,)),
    "sort": ((), (0,), (1,)),
    "argsort": ((), (0,), (1,)),
    "nonzero": ((),),
    "clip": ((1, 3), (None, 2), (0.5, None)),
    "diff": ((), (2,), (1, 0)),
    "repeat": ((3,), (2, 0)),
    "tile": ((2,),),
    "take": ((5,), (-1, 0), (2, 1)),
    **dict.fromkeys(("tril", "triu", "trace"), ((), (1,), (-2,))),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "u1", "?", "c16"])
@pytest.mark.parametrize("shape", [(5, 7), (300, 200)], ids=str)
def test_small_calls_have_the_bits_of_planned_ones(
    name: str, kind: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "linalg.norm" and kind == "f2":
        pytest.skip("a norm of halves rounds at every call, which a plan does once")
    values = (np.random.default_rng(0).standard_normal(shape) * 3).astype(kind)
    ours = operator.attrgetter(name)(it)
    with it.init("cpu"):
        x = it.asarray(values)
        for args in CALLS[name]:
            made: list[Any] = []
            for limit in (65_536, 0):
                monkeypatch.setattr(config, "small_elements", limit)
                try:
                    result = ours(x, *args)
                    results = result if isinstance(result, tuple) else (result,)
                    made.append([tensor.numpy() for tensor in results])
                except (TypeError, ValueError) as error:
                    made.append(type(error))
            if isinstance(made[0], type):
                assert made[0] is made[1], (args, made)
            else:
                np.testing.assert_array_equal(made[0], made[1], str(args), strict=True)


def test_small_calls_of_two_tensors_are_numpys() -> None:
    rng = np.random.default_rng(0)
    line, many = np.sort(rng.integers(0, 50, 40)), rng.integers(0, 30, (5, 6))
    with it.init("cpu"):
        a, b = it.asarray(line), it.asarray(many)
        it.stats(reset=True)
        np.testing.assert_array_equal(
            it.searchsorted(a, b).numpy(), np.searchsorted(line, many), strict=True
        )
        np.testing.assert_array_equal(it.take(a, b).numpy(), np.take(line, many), strict=True)
        np.testing.assert_array_equal(it.bincount(a).numpy(), np.bincount(line), strict=True)
        assert it.stats()["small_calls"] == 3
        with pytest.raises(IndexError, match="index 70 is out of bounds"):
            it.take(a, it.asarray([70])).numpy()
        assert np.isnan(it.mean(it.zeros(0)).numpy())  # without a warning


def test_small_tensors_of_plain_numbers_are_numpys() -> None:
    with it.init("cpu"):
        for name, args in (
            ("linspace", (0, 1, 7)),
            ("linspace", (2.5, -1)),
            ("eye", (4,)),
            ("eye", (3, 5)),
            ("full", (6, 2)),
            ("full", (3, 0.5)),
        ):
            it.stats(reset=True)
            made = getattr(it, name)(*args).numpy()
            assert it.stats()["small_calls"] == 1
            np.testing.assert_array_equal(made, getattr(np, name)(*args), strict=True)


def test_small_ranges_and_rolls_are_numpys() -> None:
    with it.init("cpu"):
        for args in ((5,), (2, 9), (9, 2, -3), (0,), (-4, 4, 2)):
            it.stats(reset=True)
            np.testing.assert_array_equal(it.arange(*args).numpy(), np.arange(*args), strict=True)
            assert it.stats()["small_calls"] == 1
        a = np.arange(12).reshape(3, 4)
        x = it.asarray(a)
        np.testing.assert_array_equal(it.roll(x, 5).numpy(), np.roll(a, 5), strict=True)
        np.testing.assert_array_equal(it.roll(x, -1, axis=1).numpy(), np.roll(a, -1, axis=1))
        np.testing.assert_array_equal(
            it.roll(x, (1, 2), (0, 1)).numpy(), np.roll(a, (1, 2), (0, 1))
        )
        for ends in ((2**63,), (-(2**62), 2**63), (0.0, 2.0**63)):  # np.arange: empty, on some CPUs
            with pytest.raises(ValueError, match="Maximum allowed size exceeded"):
                it.arange(*ends)
        with pytest.raises(ZeroDivisionError) as theirs:
            np.arange(0, 1, 0)
        with pytest.raises(theirs.type, match=r"."):
            it.arange(0, 1, 0)


@pytest.mark.parametrize("of", ["asarray", "element", "sum"])
def test_a_complex_number_before_a_float_value_is_numpys_arithmetic(of: str) -> None:
    x = it.asarray([0.0])
    value = {"asarray": it.asarray(0.0), "element": x[0], "sum": x.sum()}[of]
    for found, theirs in [(1j * value, 0j), (1j - value, 1j), (1j + value, 1j)]:
        assert isinstance(found, it.Tensor)
        assert found.dtype == np.complex128
        assert complex(found) == theirs
    assert np.isnan((0j / value).real)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c16", "?"])
@pytest.mark.parametrize("shape", [(3, 4), (5,), (2, 3, 4), (0, 3), (1, 1), ()])
def test_a_transpose_of_a_small_tensor_is_a_view(shape: tuple[int, ...], dtype: str) -> None:
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    x = it.asarray(values.copy())
    for seen, want in (
        (x.T, values.T),
        (x[::-1].T if shape else x.T, values[::-1].T if shape else values),
    ):
        assert (seen.shape, seen.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(seen.numpy(), want)
    if values.ndim > 1 and values.size:
        y, want = x.T, values.copy()
        y[0] = 1
        want.T[0] = 1
        np.testing.assert_array_equal(x.numpy(), want)
        x[...] = 0
        assert not y.numpy().any()
        assert y.T.shape == x.shape


def test_transposes_of_parts_and_of_what_waits_are_numpys() -> None:
    z = it.asarray(np.arange(12).reshape(3, 4) + 2j)
    np.testing.assert_array_equal(z.real.T.numpy(), np.arange(12.0).reshape(3, 4).T)
    np.testing.assert_array_equal((z[1].T * 2).numpy(), (np.arange(4, 8) + 2j) * 2)
    wide = np.arange(300_000.0).reshape(300, 1000)
    waiting = it.asarray(wide) * 2
    np.testing.assert_array_equal(waiting.T.numpy(), wide.T * 2)


@pytest.mark.parametrize("name", ["sum", "amax", "argmin", "any", "cumsum", "prod", "mean"])
@pytest.mark.parametrize("axis", [0, 1, -1, None, 2, 1.5, (0, 1), np.int64(1)])
def test_small_reductions_along_axes_are_numpys(name: str, axis: Any) -> None:
    for dtype in ("f4", "f8", "i4", "?"):
        values = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
        x = it.asarray(values)
        try:
            want = np.asarray(getattr(np, name)(values, axis=axis))
        except Exception:
            with pytest.raises((TypeError, ValueError, IndexError)):
                getattr(it, name)(x, axis=axis).numpy()
            continue
        for each in (x, x.T.T, it.asarray(np.asfortranarray(values))):
            found = getattr(it, name)(each, axis=axis)
            assert (found.shape, found.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)


def test_small_calls_with_plain_options_are_counted_as_numpys() -> None:
    x = it.asarray(np.arange(12.0).reshape(3, 4))
    before = it.stats()["ways"]["numpy"]
    made = it.sum(x, axis=1, keepdims=True)
    assert made.shape == (3, 1)
    assert it.stats()["ways"]["numpy"] == before + 1


def test_views_made_in_c_are_views_of_the_same_memory() -> None:
    a = it.asarray(np.arange(12.0).reshape(3, 4))
    for view in (
        a.reshape(4, 3),
        a.reshape((2, -1)),
        a.ravel(),
        a.transpose(1, 0).T,
        a[None].squeeze(),
    ):
        view[(0,) * view.ndim] = float(a[0, 0]) + 1
    assert float(a[0, 0]) == 5
    flat, copy = a.flatten(), a.copy()
    flat[0] = copy[0, 0] = 7
    assert float(a[0, 0]) == 5
    assert a.T.ravel().tolist() == a.numpy().T.ravel().tolist()
    frozen = it.broadcast_to(it.asarray(np.arange(3)), (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        frozen.swapaxes(0, 1)[0, 0] = 1


@pytest.mark.parametrize("shape", [(3, 4), (5,), (0, 2), (1, 1, 2)], ids=str)
def test_several_results_are_tensors_of_their_own(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape) % 3
    x = it.asarray(values)
    before = it.stats()["ways"]["numpy"]
    found = (it.nonzero(x), it.unique(x, return_inverse=True, return_counts=True))
    assert it.stats()["ways"]["numpy"] == before + 2
    for made, wanted in zip(
        found,
        (np.nonzero(values), np.unique(values, return_inverse=True, return_counts=True)),
        strict=True,
    ):
        assert type(made) is tuple
        for one, theirs in zip(made, wanted, strict=True):
            np.testing.assert_array_equal(one.numpy(), theirs)
            assert one.numpy().flags.c_contiguous
            one += 1
            np.testing.assert_array_equal(one.numpy(), theirs + 1)
    np.testing.assert_array_equal(x.numpy(), values)


@pytest.mark.parametrize("dtype", ["f4", "i8", "?", "c16", "f2"])
def test_shapes_that_take_a_copy_are_numpys_at_once(dtype: str) -> None:
    values = (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype)
    a = it.asarray(values)
    changes: tuple[Callable[[Any], Any], ...] = (
        lambda x: x.T.reshape(-1),
        lambda x: x.swapaxes(0, 1).reshape(3, -1),
        lambda x: x[:, ::2].reshape((4, 4)),
        lambda x: x[::-1, :, 1:3].reshape(12),
    )
    for change in changes:
        before = it.stats()["ways"]["numpy"]
        made = change(a)
        assert it.stats()["ways"]["numpy"] == before + 1
        np.testing.assert_array_equal(made.numpy(), change(values))
        made[0] = 1
        np.testing.assert_array_equal(a.numpy(), values)
    a.swapaxes(0, 1).reshape(3, 1, 2, 4)[0] = 0  # a view, still
    assert not a.numpy()[:, 0].any()
    with pytest.raises(ValueError, match="reshape"):
        a.T.reshape(5, 5)
    with pytest.raises(ValueError, match="copy"):
        a.T.reshape(-1, copy=False)


@pytest.mark.parametrize("shape", [(5, -1), (-1, -1), (13,)])
def test_shapes_that_do_not_fit_are_said_as_before(shape: Any) -> None:
    with pytest.raises(ValueError, match=r"reshape|dimension|size|shape"):
        it.asarray(np.arange(12)).reshape(shape)


def test_casts_are_numpys() -> None:
    kinds = ("f2", "f4", "f8", "i4", "?", "u1")
    for kind in kinds:
        x = (np.random.default_rng(0).random((4, 5)) * 300).astype(kind)
        for other in (*kinds, "c8"):
            with np.errstate(all="ignore"):
                wanted = x.astype(other)
            for made, numpys in ((it.asarray(x), wanted), (it.asarray(x).T, wanted.T)):
                found = made.astype(np.dtype(other))
                assert found.dtype == numpys.dtype
                assert found.numpy().tobytes() == numpys.tobytes()


@pytest.mark.parametrize("kind", ["f2", "f4", "i4", "u1", "c8"])
@pytest.mark.parametrize("exponent", [2, 2.0, 0.5, 3, True])
def test_powers_are_numpys(kind: str, exponent: Any) -> None:
    x = np.arange(6).astype(kind)
    wanted, made = x**exponent, it.asarray(x) ** exponent
    assert made.dtype == wanted.dtype
    np.testing.assert_allclose(made, wanted, 1e-3)
