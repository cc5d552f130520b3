"""Reductions of rows that a mask selects: from where the rows are, nothing stored between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.analysis.graphs import names, recorded_graph
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.analysis.masked_reductions import fold_selected, sum_selected
from infinitensor.ops.move import mask as mask_ops

if TYPE_CHECKING:
    from pathlib import Path

A = np.random.default_rng(4).random((40, 6))
CHOSEN = A[:, 0] > 0.5


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is wide enough to be reduced by parts."""
    monkeypatch.setattr(mask_ops, "WIDE_ENOUGH", 1)


def test_an_exact_reduction_and_its_selection_become_one_node() -> None:
    with strict("cpu") as session:
        top = it.asarray(A)[it.asarray(CHOSEN)].max(axis=0)
        graph = recorded_graph(session, top)
        found = fold_selected(graph)
    assert names(graph) == ["_mask_select", "max"]
    assert names(found) == ["_mask_fold"]
    assert found.nodes[0].operands == graph.nodes[0].operands
    assert found.nodes[0].outs == graph.nodes[1].outs


def test_what_rounds_goes_along_rows_or_is_read_by_others_is_stored() -> None:
    with strict("cpu") as session:
        x, mask = it.asarray(A), it.asarray(CHOSEN)
        for made in (x[mask].sum(axis=0), x[mask].max(axis=1)):
            graph = recorded_graph(session, made)
            assert "_mask_select" in names(graph)
            assert names(fold_selected(graph)) == names(graph)
        rows = x[mask]
        graph = recorded_graph(session, rows.max(axis=0), rows)
        assert names(fold_selected(graph)) == names(graph)


def test_a_graph_without_selections_is_itself() -> None:
    with strict("cpu") as session:
        graph = recorded_graph(session, it.asarray(A).max(axis=0))
    assert fold_selected(graph) is graph
    assert sum_selected(graph) is graph


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_sums_of_selected_rows_of_files_are_sums_of_all_the_others_zero(
    reduction: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", A)
    with strict("cpu", 24) as session:
        made = getattr(it.open(tmp_path / "a.npy")[it.asarray(CHOSEN)], reduction)(axis=0)
        graph = recorded_graph(session, made)
        found = sum_selected(graph)
        values = made.numpy()
    assert names(graph) == ["_mask_select", reduction]
    assert names(found) == ["_chosen", reduction]
    assert found.specs[found.nodes[0].outs[0]].shape == A.shape
    assert found.nodes[1].call.form.sizes == A.shape
    np.testing.assert_allclose(values, getattr(A[CHOSEN], reduction)(axis=0))


def test_sums_of_what_is_in_memory_stay_as_they_are() -> None:
    with strict("cpu") as session:
        graph = recorded_graph(session, it.asarray(A)[it.asarray(CHOSEN)].sum(axis=0))
    assert sum_selected(graph) is graph


def test_what_is_computed_from_a_file_element_by_element_is_summed_so_too(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", A)
    with strict("cpu", 24) as session:
        x = it.open(tmp_path / "a.npy")
        near: Any = (x * 2)[it.asarray(CHOSEN)].sum(axis=0)
        far: Any = it.sort(x, axis=1)[it.asarray(CHOSEN)].sum(axis=0)
        graph = sum_selected(recorded_graph(session, near, far))
        assert names(graph).count("_chosen") == 1
        assert names(graph).count("_mask_select") == 1
        np.testing.assert_allclose(near.numpy(), (A * 2)[CHOSEN].sum(axis=0))
        np.testing.assert_allclose(far.numpy(), np.sort(A, axis=1)[CHOSEN].sum(axis=0))
