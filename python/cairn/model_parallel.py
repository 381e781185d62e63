"""The groups of a program that divides its layers itself: DeepSpeed's `mpu`."""

from __future__ import annotations

from typing import Any, Optional

import torch

from . import comm
from ._library import _core
from .moe.experts import Experts


def _ask(mpu, what, *kinds):
    """What an mpu says under the first name that it has, get_KIND_parallel_WHAT()."""
    for kind in kinds:
        answer = getattr(mpu, f"get_{kind}_parallel_{what}", None)
        if answer is not None:
            return answer()
    return None


def _ranks(mpu, *kinds):
    group = _ask(mpu, "group", *kinds)
    if group is None:
        names = ", ".join(f"get_{kind}_parallel_group()" for kind in kinds)
        raise _core.UsageError(f"initialize: mpu has none of {names}")
    return torch.distributed.get_process_group_ranks(group)


def mesh_of(mpu: Any) -> _core.Mesh:
    """The mesh of an mpu's groups. Every rank calls it."""
    for what, kinds in (
        ("pipeline stages, which the engine has to run itself; make the model a cairn.pipe.PipelineModule", ("pipeline_model", "pipe")),
        ("ranks that divide sequences, and the engine cannot tell whose gradients are parts", ("sequence", "context")),
        ("ranks that divide experts; make them a cairn.moe.layer.MoE, without mpu", ("expert_model", "expert")),
    ):
        for kind in kinds:  # an mpu may answer for several
            if (_ask(mpu, "world_size", kind) or 1) > 1:
                raise _core.UsageError(f"initialize: mpu has {what} (get_{kind}_parallel_world_size() is above 1)")
    if not torch.distributed.is_initialized():
        raise _core.UsageError("initialize: mpu has groups of torch.distributed, which is not initialized")
    tensor = _ranks(mpu, "tensor_model", "slice", "model")
    return _core.Mesh.of_groups(comm.world(), _ranks(mpu, "data"), tensor, [comm.world().rank])


def slices_of(module: torch.nn.Module, mesh: _core.Mesh) -> list[tuple[str, list[int], list[int]]]:
    """The parameters of which this rank has a part, as Megatron's layers mark them: name,
    whole shape, and place of the part. The others are the same on all ranks."""
    size = mesh.size(_core.Axis.tensor)
    slices = []
    # The marks of DeepSpeed's, on experts that every rank has.
    whole_experts = {id(each) for part in module.modules() if isinstance(part, Experts) for each in part.parameters()}
    for name, parameter in module.named_parameters():
        for mark, value, what in (
            ("allreduce", False, "of an expert that other ranks have not"),
            ("sequence_parallel", True, "of a layer that sees a part of each sequence"),
        ):
            if getattr(parameter, mark, None) is value and id(parameter) not in whole_experts:
                raise _core.UsageError(
                    f"initialize: {name} is marked with {mark} = {value}, as a parameter {what}: the engine would add up its "
                    "gradients over other ranks than mpu means; with mpu, make layers without it"
                )
        if not (getattr(parameter, "model_parallel", False) or getattr(parameter, "tensor_model_parallel", False)):
            continue
        dim: Optional[int] = getattr(parameter, "partition_dim", None)
        if dim is None or not 0 <= dim < parameter.dim():
            raise _core.UsageError(
                f"initialize: {name} is marked as model_parallel, but nobody says in which dimension it is cut; "
                "set parameter.partition_dim"
            )
        if getattr(parameter, "partition_stride", 1) != 1:
            raise _core.UsageError(
                f"initialize: {name} has partition_stride {parameter.partition_stride}: its part is no stretch of the whole; "
                "make it several parameters"
            )
        whole, place = list(parameter.shape), [0] * parameter.dim()
        place[dim] = mesh.rank(_core.Axis.tensor) * whole[dim]
        whole[dim] *= size
        slices.append((name, whole, place))
    return slices
