"""What depends on what: disjoint writes are independent tasks, carried ones a chain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it

from .conftest import Settings, session

N = 40
STRICT = Settings(0, 1 << 20, "cpu*2")

pytestmark = pytest.mark.local


@pytest.fixture(autouse=True, scope="module")
def strict_session() -> Any:
    """Everything is recorded: no write is so small that it is done at once."""
    with session(STRICT):
        yield


def rows(n: int = N) -> Any:
    return it.asarray(np.arange(n * 8, dtype=np.float64).reshape(n, 8))


def dependence_of(*tensors: Any) -> Any:
    found = it.plan(*tensors).dependence
    for name in ("n_nodes", "n_edges", "critical_path", "widest_level"):
        assert isinstance(getattr(found, name), int), name
    return found


def test_rows_written_from_rows_are_independent() -> None:
    a, c = rows(), it.zeros((N, 8))
    for i in range(N):
        c[i] = a[i] * 2 + 1
    found = dependence_of(c)
    assert found.widest_level >= N
    assert found.critical_path <= 8
    np.testing.assert_array_equal(c.numpy(), rows().numpy() * 2 + 1)


def test_rows_written_backwards_and_by_steps_are_independent() -> None:
    a, c = rows(), it.zeros((N, 8))
    for i in range(0, N, 2):
        c[N - 1 - i] = a[i]
    for i in range(1, N, 2):
        c[N - 1 - i : N - i, ::-1] = a[i : i + 1]
    found = dependence_of(c)
    assert found.widest_level >= N
    assert found.critical_path <= 8


def test_writes_through_views_of_disjoint_columns_are_independent() -> None:
    c = it.zeros((8, N))
    transposed = c.T
    for i in range(N):
        transposed[i] = float(i)
    assert dependence_of(c).widest_level >= N
    np.testing.assert_array_equal(c.numpy(), np.tile(np.arange(N, dtype=float), (8, 1)))


def test_interleaved_steps_do_not_overlap() -> None:
    c = it.zeros((4 * N,))
    for start in range(4):
        c[start::4] = float(start)
    assert dependence_of(c).critical_path <= 6


def test_a_carried_loop_is_a_chain() -> None:
    c = rows()
    for i in range(1, N):
        c[i] = c[i - 1] * 0.5 + c[i]
    found = dependence_of(c)
    assert found.critical_path >= N - 1
    assert found.widest_level < N
    expected = rows().numpy()
    for i in range(1, N):
        expected[i] = expected[i - 1] * 0.5 + expected[i]
    np.testing.assert_array_equal(c.numpy(), expected)


def test_in_place_updates_of_one_array_are_a_chain() -> None:
    c = rows()
    for i in range(N):
        c[1:] += float(i)
    found = dependence_of(c)
    assert found.critical_path >= N
    assert found.widest_level <= 4


def test_updates_of_whole_arrays_are_one_pass() -> None:
    """Nobody sees what is between them."""
    c = rows()
    for i in range(N):
        c += float(i)
    assert dependence_of(c).critical_path == 1
    np.testing.assert_array_equal(c.numpy(), rows().numpy() + N * (N - 1) / 2)


def test_two_interleaved_chains_are_half_as_long_and_twice_as_wide() -> None:
    """Even rows feed even rows, odd rows odd rows."""

    def chained(stride: int) -> Any:
        c = rows()
        for i in range(stride, N):
            c[i] = c[i - stride] + 1.0
        return dependence_of(c)

    one, two = chained(1), chained(2)
    assert two.critical_path <= 0.6 * one.critical_path
    assert two.widest_level >= 2 * one.widest_level


def test_a_stencil_reads_the_three_rows_it_touches() -> None:
    a, c = rows(), it.zeros((N, 8))
    for i in range(1, N - 1):
        c[i] = a[i - 1] + a[i] + a[i + 1]
    found = dependence_of(c)
    assert found.widest_level >= N - 2
    assert found.critical_path <= 8


def test_a_whole_write_hides_what_was_written_before() -> None:
    c = it.zeros((N, 8))
    for i in range(N):
        c[i] = float(i)
    c[...] = 7.0
    a_new = dependence_of(c)
    fresh = it.zeros((N, 8))
    fresh[...] = 7.0
    assert a_new.critical_path <= dependence_of(fresh).critical_path + 2
    assert (c.numpy() == 7.0).all()


def test_a_read_between_writes_sees_only_the_writes_before_it() -> None:
    c = it.zeros((N, 8))
    sums = []
    for i in range(N):
        sums.append(c.sum())
        c[i] = 1.0
    assert [float(one) for one in sums] == [8.0 * i for i in range(N)]


def test_edges_stay_bounded_where_rows_and_columns_alternate() -> None:
    """Each row write overlaps every column write: exact edges would be quadratic."""
    n = 200
    c = it.zeros((n, n))
    for i in range(n):
        c[i] = float(i)
        c[:, i] = float(-i)
    found = dependence_of(c)
    assert found.n_nodes >= 2 * n
    assert found.n_edges <= 200 * found.n_nodes
    expected = np.zeros((n, n))
    for i in range(n):
        expected[i] = i
        expected[:, i] = -i
    np.testing.assert_array_equal(c.numpy(), expected)


def test_explain_says_tasks_critical_path_and_width() -> None:
    a, c = rows(), it.zeros((N, 8))
    for i in range(N):
        c[i] = a[i] * 2
    found = dependence_of(c)
    for text in (str(c.explain()), str(it.explain(c))):
        assert "critical path" in text.lower()
        assert "widest level" in text.lower()
        assert str(found.widest_level) in text


def test_explain_runs_nothing() -> None:
    a, c = rows(), it.zeros((N, 8))
    for i in range(N):
        c[i] = a[i] * 2
    it.stats(reset=True)
    str(c.explain())
    assert it.plan(c).dependence.n_nodes > 0
    assert it.stats()["tasks"] == 0


def test_the_same_program_is_analysed_alike_twice() -> None:
    def analysed() -> tuple[int, int, int, int]:
        a, c = rows(), it.zeros((N, 8))
        for i in range(1, N):
            c[i] = a[i] + c[i - 1]
        found = dependence_of(c)
        return found.n_nodes, found.n_edges, found.critical_path, found.widest_level

    assert analysed() == analysed()
