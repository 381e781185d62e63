"""Optimizers of torch in terms of the engine's, and the engine's in terms of torch's."""

from __future__ import annotations

import collections
from typing import Any, Optional

import torch

from ._library import _core

# Settings that change what is computed, and the values at which nothing is lost
# when the engine's own update takes an optimizer's place.
_MUST_BE = {
    "amsgrad": (False,),
    "maximize": (False,),
    "differentiable": (False,),
}

# Optimizers that treat all elements alike: on stretches of flat weights they compute
# what they would on whole parameters.
_BY_ELEMENT = (
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.Adamax,
    torch.optim.AdamW,
    torch.optim.ASGD,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.SGD,
)


def _settings_of(optimizer):
    """The optimizer as DeepSpeed's JSON names it, without the values of groups; None if
    the engine has no such update."""
    if hasattr(optimizer, "cairn_config"):
        return optimizer.cairn_config
    kind = type(optimizer)
    values = optimizer.defaults
    if kind in (torch.optim.AdamW, torch.optim.Adam):
        decoupled = kind is torch.optim.AdamW or bool(values.get("decoupled_weight_decay"))
        return {"type": "AdamW" if decoupled else "Adam", "params": {"adam_w_mode": decoupled}}
    if kind is torch.optim.SGD:
        return {
            "type": "SGD",
            "params": {"dampening": values["dampening"], "nesterov": values["nesterov"]},
        }
    if kind is torch.optim.Adagrad:
        return {
            "type": "Adagrad",
            "params": {
                "lr_decay": values["lr_decay"],
                "initial_accumulator_value": values["initial_accumulator_value"],
            },
        }
    return None


def _section_of(optimizer):
    """The `optimizer` section of a configuration that trains as this optimizer of
    Python's would, or why there is none."""
    settings = _settings_of(optimizer)
    if settings is None:
        return None, "is not one that the engine has"
    shared = [name for name in settings["params"] if name in optimizer.defaults]
    for group in optimizer.param_groups:
        for name, allowed in _MUST_BE.items():
            if group.get(name, allowed[0]) not in allowed:
                return None, f"with {name}={group[name]} is not one that the engine has"
        for name in shared:
            if group.get(name) != optimizer.defaults[name]:
                return None, f"has parameter groups that differ in {name}"
    first = optimizer.param_groups[0]
    values = {name: _plain(first[name]) for name in ("lr", "betas", "eps", "weight_decay", "momentum") if name in first}
    return {"type": settings["type"], "params": {**values, **settings["params"]}}, None


def translated(optimizer: torch.optim.Optimizer, allow_untested: Any) -> tuple[Optional[dict[str, Any]], Optional[torch.optim.Optimizer]]:
    """What trains in an optimizer's place: the `optimizer` section of a configuration,
    whose update the engine has, or a copy of the optimizer that the engine runs on its
    weights."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise _core.UsageError(f"initialize: optimizer is a {type(optimizer).__name__}, not a torch.optim.Optimizer")
    name = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    if any(float(state.get("step", 1)) > 0 for state in optimizer.state.values()):
        raise _core.UsageError(f"initialize: {name} has taken steps already, and its states would be lost")
    section, reason = _section_of(optimizer)
    if section is not None:
        return section, None
    alike = type(optimizer) in _BY_ELEMENT and not optimizer.defaults.get("differentiable")
    if not alike and not allow_untested:
        raise _core.UsageError(
            f"initialize: {name} {reason}; pass one of {', '.join(kind.__name__ for kind in _BY_ELEMENT)} of torch.optim or "
            'one of cairn.ops, or say "zero_allow_untested_optimizer": true for one that treats all elements alike'
        )
    # The program's own object stays as it is.
    copy = object.__new__(type(optimizer))
    copy.__dict__.update(optimizer.__dict__)
    copy.__dict__.pop("step", None)  # a scheduler's, bound to the program's object
    copy.param_groups = [dict(group) for group in optimizer.param_groups]
    copy.state = collections.defaultdict(dict)
    return None, copy


def _plain(value):
    if isinstance(value, (tuple, list)):
        return [float(each) for each in value]
    return float(value)


class EngineOptimizer(torch.optim.Optimizer):
    """The engine's optimizer as torch's schedulers and programs want it: groups with
    values that can be read and changed. The engine steps it."""

    def __init__(self, core: Any, groups: Any, client: Any = None) -> None:
        self._core = core
        self._client = client
        values = self._values()
        if len(groups) != len(values):
            groups = [{"params": groups[0]["params"] if groups else []}] + [{"params": []} for _ in values[1:]]
        made = [{**group, **value, "params": list(group["params"])} for group, value in zip(groups, values)]
        super().__init__(made, {})
        self._seen = [dict(value) for value in values]

    def _values(self):
        values = self._core.group_values()
        if self._client is None:
            return values
        return [{"lr": value["lr"]} for value in values]  # the others are the program's

    def push(self) -> None:
        """Gives the engine the values that the program has changed."""
        if self._client is not None:
            for theirs, group in zip(self._client.param_groups, self.param_groups):
                theirs.update({name: value for name, value in group.items() if name not in ("params", "lr")})
        for number, (group, seen) in enumerate(zip(self.param_groups, self._seen)):
            changed = {name: group[name] for name in seen if name in group and group[name] != seen[name]}
            if changed:
                self._core.set_group_values(number, changed)
                seen.update(changed)

    def pull(self) -> None:
        """Shows the values that the engine uses next."""
        for group, seen, values in zip(self.param_groups, self._seen, self._values()):
            group.update(values)
            seen.update(values)

    @property
    def cur_scale(self) -> float:
        """The factor of the loss."""
        return self._core.loss_scale

    loss_scale = cur_scale

    def step(self, closure: Any = None) -> None:
        """Refused: the engine steps."""
        raise _core.UsageError("optimizer.step(): call engine.step(), which clips, updates and moves the schedule on")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: the engine forgets gradients when it has used them."""

    def backward(self, loss: torch.Tensor, **_: Any) -> None:
        """Refused: the engine runs backward."""
        raise _core.UsageError("optimizer.backward(loss): call engine.backward(loss)")

    def state_dict(self) -> None:
        """Refused: the engine saves."""
        raise _core.UsageError(
            "optimizer.state_dict(): the states are spread over the ranks; call engine.save_checkpoint(folder)"
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refused: the engine loads."""
        raise _core.UsageError("optimizer.load_state_dict(): call engine.load_checkpoint(folder)")
