"""CUDA graphs without a GPU: operators are recorded, and a repetition computes them again
into the same memory. torch.cuda.make_graphed_callables is torch's own."""

import contextlib
import unittest.mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


def _tensors(values):
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def _memory_of(values):
    """The same memory, whatever becomes of the tensors."""
    return tree_map_only(torch.Tensor, lambda tensor: tensor.data, values)


class Graph:
    """What torch.cuda.CUDAGraph is on a GPU."""

    def __init__(self):
        self.calls = []

    def replay(self):
        with torch.no_grad():
            for operator, arguments, named, results in self.calls:
                for place, value in zip(results, _tensors(operator(*arguments, **named))):
                    # Results that are views, or written in place, are there already.
                    if place.untyped_storage()._cdata != value.untyped_storage()._cdata:
                        place.copy_(value)


class _Recording(TorchDispatchMode):
    """What torch.cuda.graph is on a GPU."""

    def __init__(self, graph, pool=None):
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        results = operator(*arguments, **(named or {}))
        self.graph.calls.append((operator, *_memory_of((arguments, named or {})), _tensors(_memory_of(results))))
        return results


def make_graphed_callables(parts, samples):
    """torch.cuda.make_graphed_callables, with such graphs."""
    with (
        unittest.mock.patch.multiple(
            torch.cuda,
            CUDAGraph=Graph,
            graph=_Recording,
            Stream=lambda: None,
            stream=lambda _: contextlib.nullcontext(),
            synchronize=lambda: None,
        ),
        unittest.mock.patch("torch.cuda.graphs.graph_pool_handle", lambda: None),
    ):
        return torch.cuda.make_graphed_callables(parts, samples)
