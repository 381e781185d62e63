"""What DeepSpeed has and this package has not, with what to use instead."""

from __future__ import annotations

from typing import Any

_REASONS = {
    "init_inference": "serve a checkpoint with `cairn serve` (docs/serving.md)",
    "InferenceEngine": "serve a checkpoint with `cairn serve` (docs/serving.md)",
    "DeepSpeedTransformerLayer": "use torch's own layers",
    "tp_model_init": "layers of Python's are not cut into parts; mark those that you cut yourself and pass mpu to "
    "initialize() (docs/python.md)",
}


def refused_name(module: Any, name: str) -> AttributeError:
    """The error for a name that is not there: it says what to do instead."""
    reason = _REASONS.get(name)
    text = f"module '{module}' has no attribute '{name}'"
    return AttributeError(f"{text}: {reason}" if reason else text)
