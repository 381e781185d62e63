"""Lion, which only an engine runs."""

from __future__ import annotations

from typing import Any

from ._for_engine import ForEngine


class FusedLion(ForEngine):
    """The sign of a running average of gradients."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, set_grad_none: bool = True) -> None:
        super().__init__(params, "Lion", {"lr": lr, "betas": tuple(betas), "weight_decay": weight_decay}, {})


class DeepSpeedCPULion(FusedLion):
    """Lion in host memory, for `offload_optimizer`."""


__all__ = ["DeepSpeedCPULion", "FusedLion"]
