"""
What synchronous steps cost, if the time of each goes with the longest sequence among all replicas.
"""

from __future__ import annotations

import bisect
from typing import Any, Sequence

from consumer import BATCH, BOUNDARIES


def bucket(length: int) -> int:
    return bisect.bisect_right(BOUNDARIES, length)


class Cost:
    """
    Of a run. Each of its @steps is what the replicas had: the length of their batches, and the
    words in them. Times are in units of a step that computes each word of one replica's batch once,
    for each word: without padding they would be 1.
    """

    def __init__(self, steps: Sequence[Sequence[dict[str, Any]]]) -> None:
        replicas = len(steps[0])
        longest = [max(s["length"] for s in step) for step in steps]
        words = sum(s["words"] for step in steps for s in step)
        computed = sum(longest) * BATCH * replicas
        waited = sum(n - s["length"] for n, step in zip(longest, steps) for s in step) * BATCH
        self.padding = 1 - words / computed
        self.per_word = computed / words
        self.waiting = waited / words
        self.mixed = [
            i for i, step in enumerate(steps) if len({bucket(s["length"]) for s in step}) != 1
        ]
        self.buckets = 1 - len(self.mixed) / len(steps)
