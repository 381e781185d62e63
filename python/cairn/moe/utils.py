"""Parameter groups of experts."""

from __future__ import annotations

from typing import Any, Iterable, Optional

import torch

from .._library import _core
from .layer import MoE


def is_moe_param(param: torch.Tensor) -> bool:
    """True for a parameter of an expert."""
    return getattr(param, "allreduce", True) is False


def has_moe_layers(module: torch.nn.Module) -> tuple[bool, int]:
    """Whether there is a layer of experts, and the number of experts of the first one."""
    for part in module.modules():
        if isinstance(part, MoE):
            return True, part.num_experts
    return False, 0


def is_moe_param_group(param_group: dict[str, Any]) -> bool:
    """True for a group that split_params_into_different_moe_groups_for_optimizer() made."""
    return bool(param_group.get("moe", False))


def split_params_into_shared_and_expert_params(
    params: Iterable[torch.nn.Parameter],
) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """The parameters that are no expert's, and the experts'."""
    all_of_them = list(params)
    return [p for p in all_of_them if not is_moe_param(p)], [p for p in all_of_them if is_moe_param(p)]


def split_params_into_different_moe_groups_for_optimizer(
    param_groups: Any, max_group_size: Optional[float] = None
) -> list[dict[str, Any]]:
    """Parameter groups of which none has both experts' and other parameters. The engine
    takes groups that have both, too; and its buckets bound what is updated at once, so
    `max_group_size` changes nothing."""
    groups = [param_groups] if isinstance(param_groups, dict) else list(param_groups)
    made: list[dict[str, Any]] = []
    for group in groups:
        if not isinstance(group, dict):
            raise _core.UsageError(f"a parameter group is a dict, not a {type(group).__name__}")
        shared, experts = split_params_into_shared_and_expert_params(group["params"])
        group["params"] = shared
        by_name: dict[str, list[torch.nn.Parameter]] = {}
        for parameter in experts:
            by_name.setdefault(parameter.group_name, []).append(parameter)  # type: ignore[attr-defined]
        made += [{**group, "name": name, "moe": True, "params": own} for name, own in by_name.items()]
    return groups + made


def configure_moe_param_groups(model_parameters: list[Any]) -> list[dict[str, Any]]:
    """Groups of a list of parameters, or of groups, that keep experts apart."""
    if model_parameters and isinstance(model_parameters[0], dict):
        if any("moe" in group for group in model_parameters):
            return model_parameters
        return split_params_into_different_moe_groups_for_optimizer(model_parameters)
    return split_params_into_different_moe_groups_for_optimizer({"params": model_parameters, "name": "dense-params"})
