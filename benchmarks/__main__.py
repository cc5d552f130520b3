"""Every question in turn: python -m benchmarks."""

from __future__ import annotations

import sys

from benchmarks.harness import main

QUESTIONS = ("bench_core",)

if __name__ == "__main__":
    raise SystemExit(max(main(question, sys.argv[1:]) for question in QUESTIONS))
