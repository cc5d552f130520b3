"""Calls known before, tensors that are nothing but an array, elements written where they are."""

import gc
import inspect
import operator
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.without_c import assert_passes_without_c

import infinitensor as it
from infinitensor.api.eager import changing_places
from infinitensor.api.functions import op_function
from infinitensor.api.session.session import Session
from infinitensor.api.session.signatures import binder, forwarder
from infinitensor.config import config
from infinitensor.ops.table.functions import has_functions

LARGE = 100_000
Pair = tuple[np.ndarray, it.Tensor]


@pytest.fixture(params=["small", "stored", "waiting"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """The same values as an array and as a tensor in each of its states."""
    n = 100 if request.param == "small" else LARGE
    values = np.arange(n, dtype=np.float64)
    tensor = it.asarray(values)
    return values, tensor + 0 if request.param == "waiting" else tensor


def test_element_writes_in_a_loop_are_numpys(pair: Pair) -> None:
    values, tensor = pair
    for i in range(60):
        values[3 * i % 100] = i * 0.5
        tensor[3 * i % 100] = i * 0.5
    tensor[-1] = values[-1] = 7.0
    assert np.array_equal(tensor.numpy(), values)


def test_a_call_recorded_before_a_write_reads_the_old_values(pair: Pair) -> None:
    _, tensor = pair
    for i in range(40):
        tensor[i] = -1.0
    before = tensor + 1
    tensor[0] = 5.0
    assert float(before[0]) == 0.0
    assert float(tensor[0]) == 5.0


def test_a_write_between_two_known_calls_is_seen_by_the_second_only(pair: Pair) -> None:
    _, tensor = pair
    found = []
    for i in range(5):
        found.append(tensor * 2.0)
        tensor[1] = float(i)
    assert [float(x[1]) for x in found] == [2.0, 0.0, 2.0, 4.0, 6.0]


def test_exported_values_do_not_change(pair: Pair) -> None:
    _, tensor = pair
    for _ in range(20):
        tensor[2] = 8.0
    seen = np.asarray(tensor)
    tensor[2] = 9.0
    assert seen[2] == 8.0
    assert float(tensor[2]) == 9.0


def test_views_and_their_base_see_element_writes_of_each_other(pair: Pair) -> None:
    _, tensor = pair
    view = tensor[10:20]
    for i in range(20):
        tensor[10] = float(i)
        view[1] = float(-i)
        assert float(view[0]) == i
        assert float(tensor[11]) == -i


def test_copies_keep_their_values(pair: Pair) -> None:
    _, tensor = pair
    tensor[0] = 1.0
    copy = tensor.copy()
    tensor[0] = 2.0
    assert float(copy[0]) == 1.0
    copy[0] = 3.0
    assert float(tensor[0]) == 2.0


def test_a_frozen_tensor_takes_no_element(pair: Pair) -> None:
    _, tensor = pair
    tensor[0] = 1.0
    tensor.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 2.0


def test_an_element_outside_is_numpys_error(pair: Pair) -> None:
    values, tensor = pair
    tensor[0] = 1.0
    with pytest.raises(IndexError, match="out of bounds"):
        tensor[len(values)] = 2.0
    with pytest.raises(IndexError, match="out of bounds"):
        tensor[len(values)]


def test_elements_of_a_closed_session_cannot_be_written() -> None:
    with it.init("cpu") as session:
        tensor = it.zeros(LARGE)
        for i in range(40):
            tensor[i] = 1.0
        session.close()
        with pytest.raises(it.SessionClosedError, match="shut down"):
            tensor[0] = 2.0


def test_strict_runs_write_elements_by_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "small_elements", 0)
    tensor = it.asarray(np.zeros(50))
    it.stats(reset=True)
    for i in range(40):
        tensor[i] = 1.0
    assert float(tensor.sum()) == 40.0
    assert it.stats()["tasks"] > 0
    assert it.stats()["small_calls"] == 0


def test_a_loop_of_elements_computes_what_waits_once() -> None:
    tensor = it.zeros(LARGE)
    it.stats(reset=True)
    for i in range(1000):
        tensor[i] = float(i)
    assert it.stats()["evaluations"] == 1
    assert float(tensor.sum()) == 499_500.0


def test_float32_elements_overflow_in_silence() -> None:
    for n in (10, LARGE):
        tensor = it.zeros(n, dtype=it.float32)
        for _ in range(20):
            tensor[0] = 1e300
        assert float(tensor[0]) == np.inf


def test_results_of_small_calls_are_tensors_in_every_way() -> None:
    a = it.asarray([1.0, 2.0, 3.0])
    made = a + 1
    view = made[1:]
    made += 1
    assert view.tolist() == [4.0, 5.0]
    assert (made + it.ones(LARGE)[:3]).tolist() == [4.0, 5.0, 6.0]
    made.shape = (3, 1)
    assert made.T.tolist() == [[3.0, 4.0, 5.0]]
    assert made.base is None or made.base.shape == (3,)


@pytest.mark.parametrize("value", [2, 2.0, True, np.float32(2), np.int64(2)])
def test_a_known_call_with_one_kind_of_scalar_is_not_taken_for_another(value: Any) -> None:
    x = it.asarray(np.arange(LARGE, dtype=np.float32))
    for other in (3, 3.0, value, value):
        found = x * other
        expected = np.arange(LARGE, dtype=np.float32) * other
        assert found.dtype == expected.dtype
        assert np.array_equal(found.numpy(), expected)


def test_options_are_part_of_a_known_call() -> None:
    values = np.arange(LARGE, dtype=np.int32).reshape(100, -1)
    x = it.asarray(values)
    for _ in range(2):
        assert np.array_equal(x.sum(axis=0).numpy(), values.sum(axis=0))
        assert np.array_equal(x.sum(axis=1, keepdims=True).numpy(), values.sum(1, keepdims=True))
        assert x.sum(dtype=np.float64).dtype == np.float64
        assert np.array_equal(it.sum(x, 0).numpy(), values.sum(0))


def test_an_integer_beyond_the_dtype_is_an_error_also_the_second_time() -> None:
    x = it.zeros(LARGE, dtype=it.uint8)
    assert int((x + 255)[0]) == 255
    for _ in range(2):
        with pytest.raises(OverflowError, match="out of bounds"):
            x + 256
        assert bool((x < 256).all())


def test_threads_record_known_calls_of_one_tensor() -> None:
    x = it.asarray(np.ones(LARGE))
    found = []

    def work() -> None:
        for _ in range(50):
            found.append(float((x * 2.0).sum()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2.0 * LARGE] * 200


def test_arguments_are_bound_as_a_call_binds_them() -> None:
    def f(a: Any, /, b: Any = 2, *rest: Any, c: Any, d: Any = 4, **more: Any) -> None: ...

    signature = inspect.signature(f)
    bind = binder("pkg.f", signature)
    assert bind(1, c=3) == {"a": 1, "b": 2, "rest": (), "c": 3, "d": 4, "more": {}}
    assert bind(1, 5, 6, c=3, e=7)["more"] == {"e": 7}
    with pytest.raises(TypeError, match=r"f\(\) missing 1 required"):
        bind(1)
    call = forwarder("f", signature, lambda *a, **k: (a, k), "xp", {"a": str, "b": str})
    assert call(1, c=3) == (("xp", "1", 2), {"c": 3, "d": 4})
    assert call(1, 5, 6, c=3, e=7) == (("xp", "1", "5", 6), {"c": 3, "d": 4, "e": 7})


def test_an_element_is_a_scalar_that_in_place_operators_make_anew() -> None:
    x = it.asarray([1, 2, 3])
    first = x[0]
    before = first
    first += 1.5
    assert float(first) == 2.5
    assert int(before) == 1
    x[1] += 1.9
    assert x.tolist() == [1, 3, 3]


@pytest.mark.parametrize("n", [9, 300])
def test_rows_columns_and_index_arrays_of_a_matrix_are_numpys(n: int) -> None:
    values = np.arange(n * n, dtype=np.float64).reshape(n, n)
    tensor = it.asarray(values)
    for a in (values, tensor):
        a[2:, 1] -= a[2:, 0] * a[1, 0]
        a[[0, 3]] = a[[3, 0]]
        a[4, :3] = a[5, :3] @ a[:3, :3]
        a[5][a[5] > 20] = -1.0
        a[6, 2] **= 2
        a[:3, :3].T[...] += a[3, 4]
        a[7, 1:5].reshape(2, 2)[0, 1] = 0.5
    assert np.array_equal(tensor.numpy(), values)


def test_a_view_that_is_given_another_shape_is_no_longer_that_index() -> None:
    values, tensor = np.zeros((4, 4)), it.zeros((4, 4))
    for a in (values, tensor):
        at = np.index_exp[1:3, 0:2]
        part = a[at]
        part += a.dtype.type(1)
        a[at] = part
        a[2] = 7.0
        a[0:2, 2:4] = part
    assert np.array_equal(tensor.numpy(), values)


def test_small_calls_are_the_same_without_the_c_methods() -> None:
    assert_passes_without_c(__file__)


def test_what_is_a_scalar_in_numpy_does_not_change_under_another_name() -> None:
    x = it.asarray([250, 7], dtype="uint8")
    total = x[1] * 2
    again = total
    total >>= 1
    total += 0.5
    assert (int(again), float(total)) == (14, 7.5)
    whole = it.zeros(())
    same = whole
    whole += 2
    assert float(same) == 2.0


@pytest.mark.parametrize(
    "through", [lambda x: x, lambda x: x[1:], lambda x: x.T], ids=["whole", "slice", "transpose"]
)
def test_a_call_recorded_in_c_is_what_python_records(through: Any) -> None:
    x, y = (through(it.asarray(np.ones((1500, 1500), np.float32))) for _ in range(2))
    quick: Any = it.add._quick
    for _ in range(3):
        made = x + y
    session, found = made._session, quick.known[quick._key((x, y), {})[0]]
    again = quick._waiting(session, found, (x, y))
    nodes = [tensor._version.node for tensor in (made, again)]
    for name in ("op", "call", "inputs", "accesses", "shapes", "region", "alive", "stopped"):
        assert getattr(nodes[0], name) == getattr(nodes[1], name), name
    assert nodes[0].site.code is test_a_call_recorded_in_c_is_what_python_records.__code__
    assert [node.outs[0]() for node in nodes] == [made._version, again._version]
    for field in ("shape", "dtype", "live", "readers", "exported", "host", "table"):
        assert getattr(made._version, field) == getattr(again._version, field), field
    assert np.array_equal(made.numpy(), again.numpy())


def test_recording_in_c_leaks_nothing() -> None:
    x = it.asarray(np.ones((1500, 1500), np.float32))
    for _ in range(10):
        x * 2.0
    quick: Any = it.multiply._quick
    kept = [x._session, x.dtype, quick.op, None]
    gc.collect()  # what tests before this one left would go in between
    x._session.drain()
    before = [sys.getrefcount(one) for one in kept]
    for _ in range(1000):
        x * 2.0
    x._session.drain()
    gc.collect()
    after = [sys.getrefcount(one) for one in kept]
    assert all(abs(a - b) < 100 for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("n", [5, 400])
@pytest.mark.parametrize("waits", [False, True])
def test_slices_of_slices_of_any_size_are_numpys(n: int, waits: bool) -> None:
    values = np.arange(n * n * 2, dtype=np.float32).reshape(n, n, 2)
    tensor = it.asarray(values) + 0 if waits else it.asarray(values)
    for index in (
        np.index_exp[1:-1, ::2], np.index_exp[::-1], np.index_exp[2], np.index_exp[:, -1, 1:],
        np.index_exp[4:1:-2, :, 0], np.index_exp[:], np.index_exp[3:3],
    ):  # fmt: skip
        ours, theirs = tensor[index], values[index]
        assert ours.shape == theirs.shape
        assert np.array_equal(ours.numpy(), theirs)
        if theirs.size and theirs.ndim > 1:
            assert np.array_equal(ours[:, ::-1].T.numpy(), theirs[:, ::-1].T)
    for wrong in (n, -n - 1, (0, 0, 0, 0)):
        with pytest.raises(IndexError, match=r"out of bounds|too many"):
            tensor[wrong]


def test_numbers_written_through_slices_of_a_large_tensor_are_numpys() -> None:
    values = np.zeros((400, 400), np.float32)
    tensor = it.asarray(values)
    seen = tensor[10:390]
    for a, part in ((values, values[10:390]), (tensor, seen)):
        a[1:-1, 1:-1] = 1e30
        part[:, 5:] = 0.1
        a[::-3] = -2.5
    assert np.array_equal(tensor.numpy(), values)
    frozen = it.asarray(values)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        frozen[1:-1] = 1.0


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "complex128"])
def test_writes_through_views_that_are_repeated_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(5)
    values = (rng.random((400, 300)) * 9).astype(dtype)
    other = (rng.random((400, 300)) * 9).astype(dtype)
    x, y = it.asarray(values), it.asarray(other)
    numbers = [1.5, -0.0, 2.0, -7.0] if dtype == "int64" else [1.5, -0.0, 1e39, np.inf]
    reads: list[tuple[Any, Any]] = []
    for turn in range(40):
        a, b = rng.integers(0, 3, 2)
        part = (slice(a, -1 - a), slice(b, -b or None))
        if turn % 4 == 0:
            with np.errstate(all="ignore"):
                values[part] = x[part] = numbers[turn // 4 % 4]
        elif turn % 4 == 1:
            values[part] = other[part].copy()
            x[part] = y[part] + 0
        elif turn % 4 == 2:  # a value of the same tensor, and a view of another
            values[part], x[part] = values[part].copy(), x[part]
            values[1:200, :], x[1:200, :] = other[:199, :], y[:199, :]
        else:
            reads.append((values[part] * 2, x[part] * 2))
            values.real[part], x.real[part] = 3.0, 3.0
    assert np.array_equal(x.numpy(), values)
    for wanted, found in reads:
        assert np.array_equal(found.numpy(), wanted)


def test_a_write_recorded_in_c_is_counted_as_python_does() -> None:
    x, y = (it.asarray(np.zeros((300, 300))) for _ in range(2))
    for turn in range(3):  # asked, learnt, known
        before = x._version
        value = y[1:, 1:] * 1.0
        x[1:, 1:] = value
        after, node = x._version, x._version.node
        assert node is not None
        assert after is not before
        assert (before.live, after.live, after.readers) == (0, 1, 0), turn
        assert (before.readers, value._version.readers) == (1, 1)
        assert node.op.name == "_write"
        assert node.inputs == (before, value._version)
        assert node.shapes == ((300, 300), (299, 299))
        assert node.alive == 1
        assert node.outs[0]() is after
        assert x._session.writes
        it.compute(x)


@pytest.mark.parametrize("shape", [(LARGE,), (400, 300), (1000,)])
def test_entries_changed_again_by_index_are_numpys(shape: tuple[int, ...]) -> None:
    """Of tensors that are stored, wait, or are views: known calls and unknown ones."""
    rng = np.random.default_rng(1)
    at, values = rng.integers(-200, 200, 1000), rng.normal(size=(1000, *shape[1:]))
    index, given = it.asarray(at), it.asarray(values)
    x = rng.normal(size=shape)
    tensor = it.asarray(x)
    for k in range(4):
        for mine, theirs in ((tensor, x), (tensor[::-1], x[::-1])):
            it.add.at(mine, index, given)
            np.add.at(theirs, at, values)
            mine[index] = given
            theirs[at] = values
        waiting = tensor * 2.0
        it.add.at(waiting, index, given)
        doubled = x * 2.0
        np.add.at(doubled, at, values)
        np.testing.assert_allclose(waiting.numpy(), doubled, atol=1e-12)
        if k == 1:
            before, seen = tensor + 0.0, x.copy()
    np.testing.assert_allclose(tensor.numpy(), x)
    np.testing.assert_allclose(before.numpy(), seen)


def test_writing_in_c_leaks_nothing() -> None:
    x = it.asarray(np.ones((300, 300), np.float32))
    y = it.asarray(np.ones((299, 299), np.float32))
    kept = [x._session, x.dtype, y._version, None]
    counts = []
    for n in (10, 500, 500):
        for _ in range(n):
            x[1:, 1:] = 2.0
            x[1:, 1:] = y
        it.compute(x)
        x._session.drain()
        gc.collect()
        counts.append([sys.getrefcount(one) for one in kept])
    assert all(abs(a - b) < 100 for a, b in zip(counts[1], counts[2], strict=True))


def test_a_frozen_or_closed_tensor_takes_no_write_also_the_third_time() -> None:
    with it.init("cpu"):
        x = it.asarray(np.zeros((300, 300)))
        for _ in range(3):
            x[1:, 1:] = 1.0
        shown = it.broadcast_to(x, (2, 300, 300))
        for _ in range(3):
            with pytest.raises(ValueError, match="read-only"):
                shown[:, 1:, 1:] = 1.0
    for _ in range(3):
        with pytest.raises(it.errors.SessionClosedError, match="shut down"):
            x[1:, 1:] = 1.0


def test_numbers_that_compare_equal_are_distinguished_where_they_wait() -> None:
    x = it.asarray(np.full(LARGE, 2.0))
    n = it.asarray(np.full(LARGE, 2))
    for _ in range(3):  # from the second on the calls are known, and their numbers
        assert [np.signbit(float((x * 0.0 * zero)[0])) for zero in (0.0, -0.0)] == [False, True]
        assert (x * 1).dtype == (x * 1.0).dtype == (n * 1.0).dtype == np.float64
        assert (n * 1).dtype == (n * True).dtype == np.int64
        assert np.isnan(float((x + float("nan"))[0]))


def test_a_place_that_calls_again_is_one_object_and_others_are_not() -> None:
    x = it.asarray(np.ones(LARGE))
    made = [x + 1.0 for _ in range(3)] + [x + 1.0]
    sites = [t._version.node.site for t in made]  # type: ignore[union-attr]
    assert sites[1] == sites[2] != sites[3]
    assert str(sites[3]).rpartition(":")[2] == str(inspect.currentframe().f_lineno - 3)  # type: ignore[union-attr]


def test_a_closed_session_goes_with_its_last_tensor() -> None:
    def used() -> weakref.ref[Session]:
        with it.init("cpu") as session:
            x = it.asarray(np.ones(LARGE))
            waiting = [x + 1.0 for _ in range(3)]
            it.compute(waiting[0])
        del x, waiting  # the rest was never computed, and is gone after the end
        return weakref.ref(session)

    found = used()
    gc.collect()
    assert found() is None


@pytest.mark.parametrize("call", [it.exp, it.sqrt, lambda x: it.where(x > 2.0, x, 0.0)])
def test_functions_say_where_they_were_called_each_time(call: Callable[[Any], it.Tensor]) -> None:
    x = it.asarray(np.arange(LARGE) / 7.0)
    made = [call(x) for _ in range(3)]
    sites = {str(t._version.node.site).rpartition("/")[2] for t in made}  # type: ignore[union-attr]
    assert len(sites) == 1
    assert sites.pop().startswith("test_known_calls.py:")
    assert np.array_equal(made[0].numpy(), made[2].numpy())


def test_a_known_call_of_small_bfloat16_values_is_not_recorded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = it.asarray([1.0, 2.5, -3.0, 8.0], dtype=it.bfloat16)
    calls: tuple[Callable[[], it.Tensor], ...] = (
        lambda: x + x,
        lambda: it.exp(x),
        lambda: x[::2] * 3,
        lambda: x + 2**70,
    )
    expected = [call().numpy().tobytes() for call in calls]
    monkeypatch.setattr(op_function, "record", None)
    it.stats(reset=True)
    assert [call().numpy().tobytes() for call in calls] == expected
    n_ours = 2 if has_functions() else 0  # whole operands, and a loop of ours
    ways = it.stats()["ways"]
    assert (ways["numpy"], ways["kernel"]) == (n_ours, len(calls) - n_ours)


def test_a_whole_number_beyond_64_bits_beside_bfloat16_is_recorded_again() -> None:
    x = it.asarray(np.ones(123_457)).astype(it.bfloat16)
    first, again = (x * 2**70).numpy(), (x * 2**70).numpy()
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x, i: xp.concatenate([x, x * 2]),
        lambda xp, x, i: xp.concatenate((x * 2, x[:9], x)),
        lambda xp, x, i: xp.stack([x, x + 1], axis=1),
        lambda xp, x, i: x[i],
        lambda xp, x, i: xp.argmax(x, axis=0),
        lambda xp, x, i: xp.sort(x),
    ],
    ids=["two", "three", "stack", "take", "argmax", "sort"],
)
def test_calls_of_several_tensors_and_of_indices_are_known_the_second_time(
    call: Callable[..., Any],
) -> None:
    values, index = np.cos(np.arange(LARGE)), np.arange(LARGE)[::-2].copy()
    tensor, places = it.asarray(values), it.asarray(index)
    it.compute(call(it, tensor, places))
    before = dict(it.stats()["ways"])
    found = [call(it, tensor + k, places) for k in range(3)]
    ways = it.stats()["ways"]
    assert ways["recorded"] - before["recorded"] <= 1, "the sum with k, the first time"
    assert ways["recorded_again"] > before["recorded_again"]
    for k, tensor in enumerate(found):
        np.testing.assert_array_equal(tensor.numpy(), call(np, values + k, index))


def test_lists_of_other_lengths_and_kinds_are_other_calls() -> None:
    x = it.asarray(np.arange(float(LARGE)))
    short, whole = it.asarray(np.arange(5.0)), it.asarray(np.arange(LARGE))
    many = [x, *[short] * 70]
    for given in ([x], [x, x], (x, x), [x, whole], [short, x], [x, short], [x, np.ones(3)], many):
        for _ in range(2):
            found = it.concatenate(given)
            arrays = [np.asarray(one) for one in given]
            np.testing.assert_array_equal(found.numpy(), np.concatenate(arrays))
            assert found.dtype == np.concatenate(arrays).dtype


def test_a_known_op_is_asked_for_bfloat16_as_before() -> None:
    x = it.asarray(np.arange(float(LARGE)), dtype="float32")
    for _ in range(2):
        assert it.argmax(x) == LARGE - 1
        assert it.sort(x.astype(it.bfloat16)).dtype == it.bfloat16
        assert it.sort(x).dtype == np.float32


def n_recorded(call: Callable[..., it.Tensor], *args: Any) -> tuple[it.Tensor, int]:
    """The result of a call that was made twice before, and how many nodes were recorded anew."""
    for _ in range(2):
        call(*args)
    it.stats(reset=True)
    made = call(*args)
    return made, it.stats()["ways"]["recorded"]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "i2", "i8", "u1", "?"])
@pytest.mark.parametrize("of", ["f2", "f4", "f8", "c16", "i4", "u8", "?"])
def test_calls_with_numpys_numbers_and_arrays_are_known_the_second_time(
    dtype: str, of: str
) -> None:
    changing_places.forget_places()
    values = (np.arange(LARGE) % 7).astype(dtype)
    number, row = np.dtype(of).type(3), (np.arange(LARGE) % 5).astype(of)
    x = it.asarray(values)
    calls: list[Callable[[Any, Any], Any]] = [operator.mul, lambda a, b: b + a, operator.ne]
    for given in (number, row):
        for call in calls:
            expected = call(values, given)
            made, n = n_recorded(call, x, given)
            assert made.dtype == expected.dtype
            np.testing.assert_array_equal(made.numpy(), expected)
            has_loops_dtype = given is row or np.result_type(values, number) == number.dtype
            assert n == 0 or not has_loops_dtype
    where = values > 1
    made, _ = n_recorded(it.where, it.asarray(where), number, x)
    np.testing.assert_array_equal(made.numpy(), np.where(where, number, values))


def test_numpys_numbers_of_other_dtypes_are_other_calls() -> None:
    values = np.arange(LARGE, dtype=np.float32)
    x = it.asarray(values)
    for _ in range(3):
        for number in (2.5, np.float32(2.5), np.float64(2.5), np.float16(2.5), np.float64(np.nan)):
            expected = values * number
            made = x * number
            assert made.dtype == expected.dtype
            np.testing.assert_array_equal(made.numpy(), expected)
    with pytest.raises(ValueError, match="broadcast"):
        x * np.ones(3)


@pytest.mark.parametrize("shape", [(LARGE,), (400, 300), (0, 3)])
def test_copies_and_casts_are_known_the_second_time(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape) * 0.75
    x = it.asarray(values)
    for of in (values, values.T):
        seen = x if of is values else x.T
        made, n = n_recorded(seen.copy)
        np.testing.assert_array_equal(made.numpy(), of)
        assert n == 0
        for dtype in ("f4", "i8", "?", "c8"):
            made, n = n_recorded(seen.astype, dtype)
            assert made.dtype == dtype
            np.testing.assert_array_equal(made.numpy(), of.astype(dtype))
            assert n == 0


def test_copies_without_axes_are_arrays() -> None:
    x = (it.asarray(np.arange(LARGE) * 0.5) + 1)[3:4].reshape(())
    for made in (x.copy(), x.astype("f4"), x.copy(), x.astype("f4")):
        assert not made._is_value
        made[...] = 7
        assert float(made) == 7
    assert float(x) == 2.5


VIEWS: dict[str, Callable[[Any], Any]] = {
    "a column": lambda s: s[:, None],
    "a row": lambda s: s[None],
    "reversed": lambda s: s[::-1],
    "all of it": lambda s: s[:],
    "own": lambda s: s * 2,
    "a column of its own": lambda s: (s * 2)[:, None],
    "transposed": lambda s: s.reshape(1, -1).T,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_call_on_a_view_of_small_values_is_recorded_again(name: str) -> None:
    a, s = np.arange(90_000.0).reshape(300, 300), np.arange(300.0)
    x, y, view = it.asarray(a), it.asarray(s), VIEWS[name]
    it.compute(x)
    found = [x - view(y) for _ in range(3)]
    y[3] = 500  # what was recorded before has the values of before
    later = x - view(y)
    for made in found:
        np.testing.assert_array_equal(made.numpy(), a - view(s))
    s[3] = 500
    np.testing.assert_array_equal(later.numpy(), a - view(s))
