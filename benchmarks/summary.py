"""What records of several peers say: the best one of each case, and means over the cases."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BAR = 1 / 0.9
"""The most that our time may be of the best peer's."""


def summary(
    records: Iterable[dict[str, Any]], asked: Mapping[tuple[str, str, str], float] | None = None
) -> str:
    """One line a case, then the geometric means, the cases beyond the bar, and what else is asked:
    `asked[case, peer, "warm" or "cold"]` is the most that our time may be of that peer's."""
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    failed = []
    for record in records:
        case = record["case"]["name"]
        if "ratio" in record:
            cases.setdefault(case, {})[record["peer"]] = record
        else:
            failed.append(f"{case}: {record['peer']}: {record['failed']}")
    peers = list(dict.fromkeys(peer for found in cases.values() for peer in found))
    lines = [
        f"| case | ms | cold ms | best peer | ratio [95 %] | {' | '.join(peers)} |",
        "|---|---|---|---|---|" + "---|" * len(peers),
        *(_line(case, found, peers) for case, found in cases.items()),
    ]
    best = {case: _best(found)["ratio"] for case, found in cases.items()}
    lines += ["", _mean("the best peer", list(best.values()))]
    for peer in peers:
        lines.append(_mean(peer, [one[peer]["ratio"] for one in cases.values() if peer in one]))
    slow = [f"{case} {ratio:.2f}" for case, ratio in best.items() if ratio > BAR]
    lines += ["", f"Above {BAR:.2f} of the best peer: {', '.join(slow) or 'none'}."]
    for (case, peer, when), most in (asked or {}).items():
        if peer in cases.get(case, {}):
            record = cases[case][peer]
            cold = record["us_cold_s"] / record["peer_cold_s"]
            ratio = record["ratio"] if when == "warm" else cold
            verdict = "met" if ratio <= most else "not met"
            lines.append(f"{case}, {when}: {ratio:.2f} of {peer}, asked {most:.2f}: {verdict}.")
    return "\n".join(lines + (["", "Without a ratio:", *failed] if failed else []))


def _best(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return max(found.values(), key=lambda record: float(record["ratio"]))


def _line(case: str, found: dict[str, dict[str, Any]], peers: list[str]) -> str:
    best = _best(found)
    ratios = [f"{found[peer]['ratio']:.2f}" if peer in found else "–" for peer in peers]
    interval = "{ratio:.2f} [{ratio_low:.2f}, {ratio_high:.2f}]".format(**best)
    times = [f"{1e3 * best[f'us_{when}_s']:.3g}" for when in ("warm", "cold")]
    return f"| {' | '.join([case, *times, best['peer'], interval, *ratios])} |"


def _mean(peer: str, ratios: list[float]) -> str:
    mean = exp(sum(map(log, ratios)) / max(len(ratios), 1))
    return f"Against {peer}: geometric mean {mean:.2f} ({1 / mean:.2f}x) of {len(ratios)} cases."
