from __future__ import annotations

from typing import Any

import torch


class ForEngine(torch.optim.Optimizer):
    """An optimizer that says what is wanted, and leaves the update to the engine."""

    def __init__(self, params: Any, name: str, defaults: Any, settings: Any) -> None:
        super().__init__(params, defaults)
        self.cairn_config = {"type": name, "params": settings}

    def step(self, closure: Any = None) -> None:
        """Refused: the engine steps."""
        raise RuntimeError(f"{type(self).__name__} works with an engine only: pass it to cairn.initialize()")
