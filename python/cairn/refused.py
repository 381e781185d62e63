"""What DeepSpeed has and this package has not, with what to use instead."""

from __future__ import annotations

from typing import Any

_REASONS = {
    "plan": "the planner knows the built-in models: `cairn plan` (docs/planning.md); for a module of your own "
    "engine.describe_memory() says what it takes",
    "init_inference": "serve a checkpoint with `cairn serve` (docs/serving.md)",
    "InferenceEngine": "serve a checkpoint with `cairn serve` (docs/serving.md)",
    "DeepSpeedTransformerLayer": "use torch's own layers",
    "tp_model_init": "tensor parallelism of Python modules is not built; "
    "the C++ models have it",
}


def refused_name(module: Any, name: str) -> AttributeError:
    """The error for a name that is not there: it says what to do instead."""
    reason = _REASONS.get(name)
    text = f"module '{module}' has no attribute '{name}'"
    return AttributeError(f"{text}: {reason}" if reason else text)
