"""What a training will need, before it runs."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Optional, Union

import torch

from ._library import _core
from .moe.experts import DividedExperts
from .zero import read_config


def plan(
    net: torch.nn.Module,
    config: Union[str, os.PathLike, Mapping[str, Any]],
    *,
    ranks: int = 1,
    cluster: Union[str, os.PathLike, None] = None,
    sequence: Optional[int] = None,
    on_gpu: bool = True,
) -> dict[str, Any]:
    """What each rank will need to train a module with a configuration, as a dict of plain
    values. Nothing is allocated: the module may be on the device "meta".

        with torch.device("meta"):
            net = Net()
        cairn.plan(net, "ds.json", ranks=8)["memory_bytes_per_rank"]["total"]

    Layers of experts are made with the `ep_size` of the training, which divides `ranks`.

    `memory_bytes_per_rank` has the states of the training by kind; activations come on top.
    `cluster` is a name that `cairn plan --clusters` lists, or a file: then `gpu`,
    `gpu_memory_bytes` and `left_for_activations` are there, too. For a model of Hugging
    Face's that the planner knows, `sequence` (its tokens in a sample) adds `run`: memory
    with activations, seconds of an iteration and where they go, as `cairn plan --json`."""
    if not isinstance(net, torch.nn.Module):
        raise _core.UsageError(f"plan: net is a {type(net).__name__}, not a torch.nn.Module")
    if sequence is not None and cluster is None:
        raise _core.UsageError("plan: sequence is for the time of a run on a cluster; give cluster, too")
    settings = json.dumps(read_config(config))
    experts = DividedExperts(net)
    stage, memory = _core.plan_states(net, settings, ranks, on_gpu, experts.ranks, experts.own)
    result: dict[str, Any] = {
        "ranks": ranks,
        "parameters": sum(
            parameter.numel() * (experts.ranks if name in experts.own else 1) for name, parameter in net.named_parameters()
        ),
        "zero_stage": stage,
        "memory_bytes_per_rank": memory,
    }
    if cluster is None:
        return result
    found = _core.find_cluster(os.fspath(cluster))
    result["gpu"] = found["gpu"]
    result["gpu_memory_bytes"] = found["memory_bytes"]
    result["left_for_activations"] = found["memory_bytes"] - found["context_bytes"] - memory["total"]
    if sequence is not None:
        described = getattr(net, "config", None)
        if not hasattr(described, "to_json_string"):
            raise _core.UsageError(
                f"plan: the planner does not know how long a {type(net).__name__} computes; leave out sequence, or give a "
                "model of Hugging Face's (GPT-2, Llama, BERT, RoBERTa, T5)"
            )
        result["run"] = _core.plan_run(described.to_json_string(use_diff=False), settings, ranks, sequence, os.fspath(cluster))
    return result
