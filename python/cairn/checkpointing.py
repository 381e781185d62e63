"""Activation checkpointing: inputs are kept, and the rest is computed again in backward."""

import contextlib

import torch
import torch.utils.checkpoint as _torch_checkpoint

from ._library import _core

_on_cpu = False
_configured = False


def configure(
    mpu_=None,
    deepspeed_config=None,
    partition_activations=None,
    contiguous_checkpointing=None,
    num_checkpoints=None,
    checkpoint_in_cpu=None,
    synchronize=None,
    profile=None,
):
    """Says how activations are kept. `checkpoint_in_cpu` moves them to host memory.
    What torch's own checkpointing cannot do is refused."""
    global _on_cpu, _configured
    for name, value in (
        ("partition_activations", partition_activations),
        ("contiguous_checkpointing", contiguous_checkpointing),
        ("profile", profile),
    ):
        if value:
            raise _core.UsageError(
                f"checkpointing.configure: {name} is not built for Python modules; leave it out"
            )
    if checkpoint_in_cpu is not None:
        _on_cpu = bool(checkpoint_in_cpu)
    _configured = True


def is_configured():
    """True after configure()."""
    return _configured


def reset():
    """Forgets what configure() was told."""
    global _on_cpu, _configured
    _on_cpu = False
    _configured = False


def checkpoint(function, *args):
    """function(*args), computed again in backward."""
    keep = torch.autograd.graph.save_on_cpu() if _on_cpu else contextlib.nullcontext()
    with keep:
        return _torch_checkpoint.checkpoint(function, *args, use_reentrant=False)
