"""Modules that torch.cuda.make_graphed_callables has made CUDA graphs."""

from __future__ import annotations

import itertools

import torch

from ._library import _core


def graphed_parts(module: torch.nn.Module) -> list[str]:
    """Names of the parts that are CUDA graphs. torch leaves no other mark on them than
    the forward that it gives to each."""
    return [
        name
        for name, part in module.named_modules()
        if getattr(part.__dict__.get("forward"), "__module__", None) == torch.cuda.graphs.__name__
    ]


def refuse_earlier(module: torch.nn.Module) -> None:
    """Refuses graphs that were made before an engine moves what they read."""
    for name in graphed_parts(module):
        part = module.get_submodule(name)
        if next(itertools.chain(part.parameters(), part.buffers()), None) is not None:
            raise _core.UsageError(
                f"initialize: {name or type(module).__name__} is a CUDA graph already, which would go on reading the memory that "
                "its parameters have now: the engine gives them other memory. Call torch.cuda.make_graphed_callables after "
                "initialize()"
            )


def refuse_between_passes(module: torch.nn.Module) -> None:
    """Refuses graphs where several passes are under way: a graph has memory for one."""
    for name in graphed_parts(module):
        raise _core.UsageError(
            f"train_batch(): {name} is a CUDA graph, which keeps the values of one micro batch for backward, and stages of a "
            "pipeline have several under way; leave its layers as they are, or take one stage"
        )
