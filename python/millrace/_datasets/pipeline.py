"""How a dataset was made, in words: the operators that the user has written."""

from __future__ import annotations

from typing import Any, TypeAlias

Pipeline: TypeAlias = Any  # (operator, Pipelines of the inputs)

# What is longer is cut: pipelines are made in loops, too.
_STEPS_MAX, _INPUTS_MAX, _DEPTH_MAX = 16, 4, 3


def render(pipeline: Pipeline, depth: int = 0) -> str:
    """Such as "zip(range, range > map) > batch"."""
    steps: list[str] = []
    while len(steps) < _STEPS_MAX:
        op, inputs = pipeline
        if len(inputs) > 1:
            shown = (
                [render(part, depth + 1) for part in inputs[:_INPUTS_MAX]]
                if depth < _DEPTH_MAX
                else []
            )
            steps.append(f"{op}({', '.join(shown + ['...'] * (len(shown) < len(inputs)))})")
        else:
            steps.append(op)
        if len(inputs) != 1:
            break
        pipeline = inputs[0]
    else:
        steps.append("...")
    return " > ".join(reversed(steps))
