"""The experts of a rank, and the names that other ranks' experts have."""

from __future__ import annotations

import copy
from typing import Iterator, Optional

import torch

from .. import comm
from .._library import _core


class NumberedModules(torch.nn.Module):
    """Modules whose names are numbers, from any number on. An index counts from 0."""

    def __init__(self, first: int, modules: list[torch.nn.Module]) -> None:
        super().__init__()
        for number, module in enumerate(modules, first):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[torch.nn.Module]:
        return iter(self.children())

    def __getitem__(self, index: int) -> torch.nn.Module:
        return list(self.children())[index]


class Experts(torch.nn.Module):
    """The experts that this rank has of `count` copies of a module. An expert is named by
    its number among all of them, so a checkpoint loads where others divide them."""

    def __init__(self, expert: torch.nn.Module, count: int, ranks: int) -> None:
        super().__init__()
        if ranks < 1 or count < 1 or count % ranks != 0:
            raise _core.UsageError(f"moe.layer.MoE: {count} experts cannot be divided evenly by ep_size={ranks}")
        self.count = count
        self.ranks = ranks
        self.group_name = f"ep_size_{ranks}"
        here = count // ranks
        first = comm.world().rank % ranks * here if ranks > 1 else 0
        self.deepspeed_experts = NumberedModules(first, [copy.deepcopy(expert) for _ in range(here)])
        for parameter in self.deepspeed_experts.parameters():
            # What programs for DeepSpeed look at.
            parameter.allreduce = False  # type: ignore[attr-defined]
            parameter.group_name = self.group_name  # type: ignore[attr-defined]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Each expert's answer to its part of the second dimension."""
        answers = []
        for part, expert in zip(inputs.chunk(len(self.deepspeed_experts), dim=1), self.deepspeed_experts):
            answer = expert(part)
            answers.append(answer[0] if isinstance(answer, tuple) else answer)
        return torch.cat(answers, dim=1)


def has_divided_experts(module: torch.nn.Module) -> bool:
    """True where ranks divide experts of the module."""
    return any(isinstance(part, Experts) and part.ranks > 1 for part in module.modules())


class DividedExperts:
    """The parameters of a module that belong to experts which ranks divide, under the
    names that they have on each of these ranks."""

    def __init__(self, module: torch.nn.Module) -> None:
        layers = {
            name: part for name, part in module.named_modules(remove_duplicate=False) if isinstance(part, Experts) and part.ranks > 1
        }
        sizes = {part.ranks for part in layers.values()}
        if len(sizes) > 1:
            raise _core.UsageError(
                f"initialize: layers of experts with ep_size {' and '.join(map(str, sorted(sizes)))} in one model; "
                "choose one ep_size (and 1) for all layers"
            )
        self.ranks = sizes.pop() if sizes else 1
        for path, layer in layers.items():
            for name, _ in layer.deepspeed_experts.named_buffers():
                raise _core.UsageError(
                    f"moe.layer.MoE: {path}.deepspeed_experts.{name} is a buffer of an expert, and ranks that divide the experts "
                    "would take each other's; make it a parameter with requires_grad=False, or keep all experts with ep_size=1"
                )
        self._names: dict[str, list[str]] = {}  # by any of the names
        own = {name for name, _ in module.named_parameters()}  # the first of several names
        self.own: list[str] = []
        for path, layer in layers.items():
            prefix = f"{path}.deepspeed_experts." if path else "deepspeed_experts."
            here = len(layer.deepspeed_experts)
            for number, (_, expert) in enumerate(layer.deepspeed_experts.named_children()):
                for rest, _ in expert.named_parameters(remove_duplicate=False):
                    names = [f"{prefix}{rank * here + number}.{rest}" for rank in range(self.ranks)]
                    mine = names[comm.world().rank % self.ranks]
                    if mine in own:
                        self.own.append(mine)
                    self._names.update(dict.fromkeys(names, names))

    def names(self, name: str) -> Optional[list[str]]:
        """The names by rank that a parameter has in its place, or none: it is no expert's."""
        return self._names.get(name)
