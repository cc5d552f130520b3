"""The walk over what waits: in C the same as in Python, and what it says of values and leaves."""

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import local

import infinitensor as it
from infinitensor.api.evaluate import evaluate, waiting
from infinitensor.api.evaluate.bound_program import stored_table
from infinitensor.api.evaluate.waiting import Walk, in_python, sight_in_python
from infinitensor.api.session.ways import EVALUATED

LARGE = 100_000


def recorded(seed: int) -> tuple[list[Any], list[Any]]:
    """Tensors that wait for random calls on stored ones; the first few are what is asked for."""
    rng = np.random.default_rng(seed)
    pool: list[Any] = [it.asarray(rng.random(LARGE)) for _ in range(3)]
    for _ in range(20):
        a, b = (pool[k] for k in rng.integers(0, len(pool), 2))
        match rng.integers(0, 5):
            case 0:
                pool.append(a + b)
            case 1:
                pool.append(2.5 * a)
            case 2:
                pool.append(a[::-1] - b)
            case 3:
                pool.append(a.copy())
                pool[-1][10:] = b[10:]
            case _:
                pool.append(it.where(a > b, a, 0.5))
    made = pool[3:]
    kept = [made[k] for k in rng.integers(0, len(made), 6)]
    return kept, pool[:3] if seed % 2 else []


def plain(found: Walk) -> dict[str, Any]:
    """What both forms say alike: objects by identity, and the key as numbers."""
    said = found._asdict()
    key = said.pop("known_by")
    said["known_by"] = np.frombuffer(key, np.int64).tolist() if type(key) is bytes else list(key)
    for name in ("nodes", "leaves", "scalars", "values"):
        said[name] = list(map(id, said[name]))
    return said


@pytest.mark.skipif(waiting._module is None, reason="no compiler")
@pytest.mark.parametrize("seed", range(6))
def test_the_walk_in_c_is_the_walk_in_python(seed: int) -> None:
    kept, leaves = recorded(seed)
    roots = [tensor._version for tensor in kept[:2]]
    assert plain(Walk._make(waiting.fields(roots))) == plain(in_python(roots))
    del leaves


@pytest.mark.skipif(waiting._module is None, reason="no compiler")
@pytest.mark.parametrize("seed", range(6))
def test_first_sight_in_c_is_that_in_python(seed: int) -> None:
    kept, leaves = recorded(seed)
    roots = [tensor._version for tensor in kept[:2]]
    session, stored = kept[0]._session, []

    def store(*given: Any) -> Any:
        stored.append(given)
        return stored_table(*given)

    found = waiting.sight(roots, (1, "x"), store, session)
    n_stored = len(stored)
    expected = sight_in_python(roots, (1, "x"), store, session)
    assert stored[:n_stored] == stored[n_stored:]
    for one, other in zip(found[:4], expected[:4], strict=True):
        assert one == other
    assert [table.form for table in found[4]] == [table.form for table in expected[4]]
    assert found[5] == expected[5]
    del leaves


def test_values_that_are_shown_or_read_elsewhere_are_needed() -> None:
    x = it.asarray(np.arange(LARGE) * 1.0)
    shown, hidden = x + 1, x + 2
    read_elsewhere = x + 3
    asked = (shown * hidden) - read_elsewhere
    other = read_elsewhere * 2
    del hidden, read_elsewhere
    x._session.drain()
    found = Walk._make(waiting.fields([asked._version]))
    needed = [found.values[n] for n in found.needed]
    assert len(found.nodes) == 5
    assert len(needed) == 3
    assert {id(v) for v in needed} >= {id(shown._version), id(asked._version)}
    assert np.array_equal(other.numpy(), (np.arange(LARGE) + 3.0) * 2)


def test_a_leaf_is_free_when_nothing_else_shows_or_reads_it() -> None:
    x, y = (it.asarray(np.arange(LARGE) * 1.0) for _ in range(2))
    it.compute(x, y)
    made = x + y
    del y
    made._session.drain()
    found = Walk._make(waiting.fields([made._version]))
    is_free = dict(zip(map(id, found.leaves), found.is_free, strict=True))
    assert is_free[id(x._version)] is False
    assert sum(is_free.values()) == sum(v.table is not None for v in found.leaves if v.live == 0)


def test_a_program_that_is_repeated_is_found_by_what_it_is_recorded_with() -> None:
    x = it.asarray(np.arange(LARGE) * 1.0)
    for k in range(4):  # the first time it is too little for a plan
        it.compute(1.0 - (x * 2.0 > 5.0) * x)
        if k == 1:
            it.stats(reset=True)
    assert it.stats()["plan_misses"] == 0


def _evaluated(monkeypatch: pytest.MonkeyPatch, repeat: Any) -> tuple[list[Any], dict[str, Any]]:
    """The values of programs that are repeated, and what was counted."""
    monkeypatch.setattr(evaluate, "repeat", repeat)
    found = []
    with it.init("cpu", memory="256MiB") as session:
        a, b = it.asarray(np.arange(LARGE * 1.0)), it.asarray(np.ones(LARGE))
        for k in range(4):
            x = a + b * k
            y = (x - 1) / 2
            z = it.stack([x, y]).sum(axis=1)
            it.compute(y, z, y)
            x += 1
            a[: LARGE // 2] = x[LARGE // 2 :]  # what was stored is written to
            found += [float(y[7]), z.numpy(), it.compute(x * x).sum().numpy(), a.numpy().copy()]
            del x, y, z
        stats = it.stats()
        del a, b
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0
    names = ("tasks", "plan_hits", "plan_misses", "evaluations", "whole_ops")
    counted = {name: stats[name] for name in names}
    return found, counted | {name: stats["ways"][name] for name in EVALUATED}


@pytest.mark.unaudited  # whoever looks at runs gets runs
@pytest.mark.skipif(waiting._module is None, reason="no compiler")
def test_programs_are_repeated_in_c_as_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    in_c, counted = _evaluated(monkeypatch, waiting.repeat_in_c)
    in_python, also = _evaluated(monkeypatch, evaluate.repeat_in_python)
    for mine, theirs in zip(in_c, in_python, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert counted == also
    assert counted["plan_hits"] > 0


@pytest.mark.skipif(waiting._module is None, reason="no compiler")
def test_repeat_in_c_takes_a_session_and_versions() -> None:
    with pytest.raises(TypeError, match="a session, versions"):
        waiting._module.repeat(1, [], it.config, stored_table)
    with it.init("cpu") as session, pytest.raises(TypeError, match="roots are versions"):
        waiting._module.repeat(session, [1], it.config, stored_table)
