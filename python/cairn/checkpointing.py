"""Activation checkpointing: inputs are kept, and the rest is computed again in backward."""

from __future__ import annotations

import contextlib
from typing import Any, Callable

import torch
import torch.utils.checkpoint as _torch_checkpoint

from . import zero
from ._library import _core

_on_cpu = False
_configured = False


def configure(
    mpu_: Any = None,
    deepspeed_config: Any = None,
    partition_activations: Any = None,
    contiguous_checkpointing: Any = None,
    num_checkpoints: Any = None,
    checkpoint_in_cpu: Any = None,
    synchronize: Any = None,
    profile: Any = None,
) -> Any:
    """Says how activations are kept. `checkpoint_in_cpu` moves them to host memory.
    What torch's own checkpointing cannot do is refused. Arguments win over the
    section `activation_checkpointing` of `deepspeed_config`, a path or a dict."""
    global _on_cpu, _configured
    section = zero.read_config(deepspeed_config).get("activation_checkpointing", {})

    def asked(argument, key):
        return section.get(key) if argument is None else argument

    checkpoint_in_cpu = asked(checkpoint_in_cpu, "cpu_checkpointing")
    for name, value in (
        ("partition_activations", asked(partition_activations, "partition_activations")),
        ("contiguous_checkpointing", asked(contiguous_checkpointing, "contiguous_memory_optimization")),
        ("num_checkpoints", asked(num_checkpoints, "number_checkpoints")),
        ("synchronize", asked(synchronize, "synchronize_checkpoint_boundary")),
        ("profile", asked(profile, "profile")),
    ):
        if value:
            raise _core.UsageError(
                f"checkpointing.configure: {name} is not built for Python modules; leave it out"
            )
    if checkpoint_in_cpu is not None:
        _on_cpu = bool(checkpoint_in_cpu)
    _configured = True


def is_configured() -> bool:
    """True after configure()."""
    return _configured


def reset() -> None:
    """Forgets what configure() was told."""
    global _on_cpu, _configured
    _on_cpu = False
    _configured = False


def checkpoint(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), computed again in backward."""
    keep = torch.autograd.graph.save_on_cpu() if _on_cpu else contextlib.nullcontext()
    with keep:
        return _torch_checkpoint.checkpoint(function, *args, use_reentrant=False)
