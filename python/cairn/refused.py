"""What DeepSpeed has and this package has not, with what to use instead."""

_REASONS = {
    "init_inference": "serve a checkpoint with `cairn serve` (docs/serving.md)",
    "InferenceEngine": "serve a checkpoint with `cairn serve` (docs/serving.md)",
    "DeepSpeedTransformerLayer": "use torch's own layers",
    "tp_model_init": "tensor parallelism of Python modules is not built; "
    "the C++ models have it",
}


def refused_name(module, name):
    """The error for a name that is not there: it says what to do instead."""
    reason = _REASONS.get(name)
    text = f"module '{module}' has no attribute '{name}'"
    return AttributeError(f"{text}: {reason}" if reason else text)
