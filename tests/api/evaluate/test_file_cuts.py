"""Files get the tiles in which they are read, unless a product reads them over and over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    np.save(tmp_path / "x.npy", np.arange(4096.0).reshape(64, 64))
    return str(tmp_path / "x.npy")


def n_tiles(session: it.Session, x: Any, asked: Any) -> int:
    Bound(session, [asked._version])
    return int(x._version.table.layout.n_tiles)


def test_a_file_is_cut_when_a_program_reads_it(path: str) -> None:
    with strict("cpu", 512) as session:
        x = it.open(path)
        assert x._version.table is not None
        assert x._version.table.is_one_file
        assert n_tiles(session, x, x + 1) == 8


def test_what_a_product_reads_over_and_over_stays_in_one_tile(path: str) -> None:
    with strict("cpu", 512) as session:
        x = it.open(path)
        assert n_tiles(session, x, it.asarray(np.ones((4096, 64))) @ x) == 1
