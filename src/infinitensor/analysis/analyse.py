"""The analysis stage: its one public function runs the passes in order."""

from __future__ import annotations

from infinitensor.analysis.copy_elision import drop_copies
from infinitensor.analysis.dependence import find_dependence
from infinitensor.analysis.fusion import find_groups
from infinitensor.analysis.last_output import make_alone
from infinitensor.analysis.masked_reductions import fold_selected, sum_selected
from infinitensor.analysis.matvec_as_sum import sum_products
from infinitensor.analysis.merge import merge_equal
from infinitensor.analysis.slice_pushdown import find_needed
from infinitensor.analysis.transpose_pushdown import push_transposes_down
from infinitensor.analysis.versions import place_versions
from infinitensor.ir.graph import Analysed, Graph


def analyse(graph: Graph, renews: bool = False, compiles: bool = True) -> Analysed:
    """Merge equal nodes, drop copies that nobody needs, decide which writes go in place, group what
    shares an iteration space, and count what depends on what.

    `renews` allows writes to make tiles of their own (`place_versions`), and tasks to read what
    is in any tile (`fold_selected`): there is one memory. `compiles`: there is what generated
    code is compiled with (`sum_products`).
    Takes time linear in nodes and accesses (bounded by joins where many overlap).
    """
    graph, merged = merge_equal(graph)
    graph = sum_products(sum_selected(drop_copies(make_alone(graph))), compiles)
    graph = push_transposes_down(graph)
    if renews:
        graph = fold_selected(graph)
    graph, roots, shared = place_versions(graph, renews)
    groups = find_groups(graph, roots)
    needed = find_needed(graph, roots)
    dependence = find_dependence(graph, groups, roots, shared)
    return Analysed(graph, groups, roots, dependence, merged, needed)
