"""The layer of experts."""

from .._library import _core


class MoE:
    """Refused: experts are built for the C++ models alone."""

    def __init__(self, *_, **__):
        raise _core.UsageError(
            "moe.layer.MoE: experts in Python modules are not built; `cairn pretrain --num-experts N` trains a GPT "
            "with experts (docs/moe.md)"
        )
