"""The threads of C: opened when they are needed, closed once."""

from __future__ import annotations

from infinitensor.runtime.native.c_pool import Pool


def test_a_closed_pool_opens_again() -> None:
    pool = Pool(2)
    before = pool.handle
    assert pool.handle == before
    pool.close()
    pool.close()
    assert pool.handle
    pool.close()
