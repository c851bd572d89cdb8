"""Fewer operators that differ in the same way."""

from __future__ import annotations

from typing import Any

from compare import difference
from outcome import refused
from pipelines import Family, Pipeline


def _kind(ours: Any, theirs: Any) -> tuple[str | None, bool, bool]:
    return difference(ours, theirs), refused(ours), refused(theirs)


def shrink(family: Family, pipeline: Pipeline) -> tuple[Pipeline, Any, Any]:
    """
    @pipeline without the operators that its difference does not need, and the outcomes: one operator
    after the other is left out, and what differs no more is put back. Which of the two refuses stays.
    """
    outcomes = family.run(pipeline)
    kind = _kind(*outcomes)
    index = len(pipeline.steps) - 1
    while index >= 0:
        fewer = Pipeline(pipeline.source, pipeline.steps[:index] + pipeline.steps[index + 1 :])
        tried = family.run(fewer)
        if _kind(*tried) == kind:
            pipeline, outcomes = fewer, tried
        index -= 1
    return pipeline, *outcomes
