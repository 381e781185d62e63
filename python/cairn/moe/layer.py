"""The layer of experts."""

from __future__ import annotations

from typing import Any

from .._library import _core


class MoE:
    """Refused: experts are built for the C++ models alone."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise _core.UsageError(
            "moe.layer.MoE: experts in Python modules are not built; `cairn pretrain --num-experts N` trains a GPT "
            "with experts (docs/moe.md)"
        )
