"""Adagrad, which only an engine runs."""

from __future__ import annotations

from typing import Any

from ._for_engine import ForEngine


class DeepSpeedCPUAdagrad(ForEngine):
    """Adagrad in host memory, for `offload_optimizer`."""

    def __init__(self, model_params: Any, lr: float = 1e-2, eps: float = 1e-10, weight_decay: float = 0) -> None:
        super().__init__(model_params, "Adagrad", {"lr": lr, "eps": eps, "weight_decay": weight_decay}, {})


__all__ = ["DeepSpeedCPUAdagrad"]
