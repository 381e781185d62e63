"""Parameter groups of experts."""

from __future__ import annotations

from typing import Any

import torch

from .._library import _core


def split_params_into_different_moe_groups_for_optimizer(param_groups: Any, max_group_size: Any = None) -> None:
    """Refused: there are no experts in Python modules."""
    raise _core.UsageError(
        "split_params_into_different_moe_groups_for_optimizer: experts in Python modules are not built"
    )


def is_moe_param(param: torch.Tensor) -> bool:
    """False: there are no experts in Python modules."""
    return False


def has_moe_layers(module: Any) -> tuple[bool, int]:
    """(False, 0): there are no experts in Python modules."""
    return False, 0
