"""DeepSpeed's learning-rate schedules, as initialize() takes them in place of the
configuration's `scheduler` section. They compute what that section would."""

from __future__ import annotations

import json
from typing import Any, Optional

import torch

from .._library import _core


class _Schedule:
    def __init__(self, optimizer: torch.optim.Optimizer, name: str, params: Any, last_batch_iteration: Any) -> None:
        self.optimizer = optimizer
        self.last_batch_iteration = last_batch_iteration
        config = {
            "train_batch_size": 1,
            "scheduler": {"type": name, "params": {key: value for key, value in params.items() if value is not None}},
        }
        lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self._schedule = _core.Schedule(json.dumps(config), lrs)
        self._apply()

    def _apply(self):
        patches = self._schedule.at(self.last_batch_iteration + 1)
        for group, patch in zip(self.optimizer.param_groups, patches):
            group.update(patch)

    def step(self, last_batch_iteration: Any = None) -> None:
        """Moves on by an update, or to one."""
        self.last_batch_iteration = (
            self.last_batch_iteration + 1 if last_batch_iteration is None else last_batch_iteration
        )
        self._apply()

    def get_last_lr(self) -> list[float]:
        """Learning rates of the next update, of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    get_lr = get_last_lr

    def state_dict(self) -> Any:
        """Refused: the engine saves."""
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: Any) -> None:
        """Refused: the engine loads."""
        self.last_batch_iteration = state["last_batch_iteration"]
        self._apply()


def _params(values):
    left_out = ("self", "optimizer", "last_batch_iteration", "__class__")
    return {name: value for name, value in values.items() if name not in left_out}


class WarmupLR(_Schedule):
    """Rises to warmup_max_lr and stays there."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_min_lr: float = 0.0,
        warmup_max_lr: float = 0.001,
        warmup_num_steps: float = 1000,
        warmup_type: str = "log",
        last_batch_iteration: Any = -1,
    ) -> None:
        super().__init__(optimizer, "WarmupLR", _params(locals()), last_batch_iteration)


class WarmupDecayLR(_Schedule):
    """Rises, then falls in a line until total_num_steps."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        total_num_steps: int,
        warmup_min_lr: float = 0.0,
        warmup_max_lr: float = 0.001,
        warmup_num_steps: float = 1000,
        warmup_type: str = "log",
        last_batch_iteration: Any = -1,
    ) -> None:
        super().__init__(optimizer, "WarmupDecayLR", _params(locals()), last_batch_iteration)


class WarmupCosineLR(_Schedule):
    """Rises, then falls in half a cosine until total_num_steps."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        total_num_steps: int,
        warmup_min_ratio: float = 0.0,
        warmup_num_steps: float = 1000,
        cos_min_ratio: float = 0.0001,
        warmup_type: str = "log",
        last_batch_iteration: Any = -1,
    ) -> None:
        super().__init__(optimizer, "WarmupCosineLR", _params(locals()), last_batch_iteration)


class OneCycle(_Schedule):
    """Rises and falls once, then decays; momentum goes the other way."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        cycle_min_lr: float,
        cycle_max_lr: float,
        decay_lr_rate: float = 0.0,
        cycle_first_step_size: int = 2000,
        cycle_second_step_size: Optional[int] = None,
        cycle_first_stair_count: int = 0,
        cycle_second_stair_count: Optional[int] = None,
        decay_step_size: float = 0,
        cycle_momentum: bool = True,
        cycle_min_mom: float = 0.8,
        cycle_max_mom: float = 0.9,
        decay_mom_rate: float = 0.0,
        last_batch_iteration: Any = -1,
    ) -> None:
        super().__init__(optimizer, "OneCycle", _params(locals()), last_batch_iteration)


class LRRangeTest(_Schedule):
    """Rises without end, to see which learning rate breaks the training."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        lr_range_test_min_lr: float = 1e-3,
        lr_range_test_step_size: float = 2000,
        lr_range_test_step_rate: float = 1.0,
        lr_range_test_staircase: bool = False,
        last_batch_iteration: Any = -1,
    ) -> None:
        super().__init__(optimizer, "LRRangeTest", _params(locals()), last_batch_iteration)
