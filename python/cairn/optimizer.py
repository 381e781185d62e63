"""Optimizers of torch in terms of the engine's, and the engine's in terms of torch's."""

import torch

from ._library import _core

# Settings that change what is computed, and the values at which nothing is lost
# when the engine's own update takes an optimizer's place.
_MUST_BE = {
    "amsgrad": (False,),
    "maximize": (False,),
    "differentiable": (False,),
}


def _refuse(optimizer, what):
    raise _core.UsageError(
        f"initialize: {type(optimizer).__module__}.{type(optimizer).__qualname__} {what}; pass torch.optim.Adam, "
        "AdamW, SGD or Adagrad, one of cairn.ops, or configure the optimizer in JSON"
    )


def _settings_of(optimizer):
    """The optimizer as DeepSpeed's JSON names it, without the values of groups."""
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
    _refuse(optimizer, "is not one that the engine has")


def section_of(optimizer):
    """The `optimizer` section of a configuration that trains as this optimizer of
    Python's would."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise _core.UsageError(f"initialize: optimizer is a {type(optimizer).__name__}, not a torch.optim.Optimizer")
    if any(float(state.get("step", 1)) > 0 for state in optimizer.state.values()):
        _refuse(optimizer, "has taken steps already, and its states would be lost")
    settings = _settings_of(optimizer)
    shared = [name for name in settings["params"] if name in optimizer.defaults]
    for group in optimizer.param_groups:
        for name, allowed in _MUST_BE.items():
            if group.get(name, allowed[0]) not in allowed:
                _refuse(optimizer, f"with {name}={group[name]} is not one that the engine has")
        for name in shared:
            if group.get(name) != optimizer.defaults[name]:
                _refuse(optimizer, f"has parameter groups that differ in {name}, which must be the same in all")
    first = optimizer.param_groups[0]
    values = {
        name: _plain(first[name]) for name in ("lr", "betas", "eps", "weight_decay", "momentum") if name in first
    }
    return {"type": settings["type"], "params": {**values, **settings["params"]}}


def _plain(value):
    if isinstance(value, (tuple, list)):
        return [float(each) for each in value]
    return float(value)


class EngineOptimizer(torch.optim.Optimizer):
    """The engine's optimizer as torch's schedulers and programs want it: groups with
    values that can be read and changed. The engine steps it."""

    def __init__(self, core, groups):
        self._core = core
        values = core.group_values()
        if len(groups) != len(values):
            groups = [{"params": groups[0]["params"] if groups else []}] + [{"params": []} for _ in values[1:]]
        made = [{**group, **value, "params": list(group["params"])} for group, value in zip(groups, values)]
        super().__init__(made, {})
        self._seen = [dict(value) for value in values]

    def push(self):
        """Gives the engine the values that the program has changed."""
        for number, (group, seen) in enumerate(zip(self.param_groups, self._seen)):
            changed = {name: group[name] for name in seen if name in group and group[name] != seen[name]}
            if changed:
                self._core.set_group_values(number, changed)
                seen.update(changed)

    def pull(self):
        """Shows the values that the engine uses next."""
        for group, seen, values in zip(self.param_groups, self._seen, self._core.group_values()):
            group.update(values)
            seen.update(values)

    @property
    def cur_scale(self):
        """The factor of the loss."""
        return self._core.loss_scale

    loss_scale = cur_scale

    def step(self, closure=None):
        raise _core.UsageError("optimizer.step(): call engine.step(), which clips, updates and moves the schedule on")

    def zero_grad(self, set_to_none=True):
        """Does nothing: the engine forgets gradients when it has used them."""

    def backward(self, loss, **_):
        raise _core.UsageError("optimizer.backward(loss): call engine.backward(loss)")

    def state_dict(self):
        raise _core.UsageError(
            "optimizer.state_dict(): the states are spread over the ranks; call engine.save_checkpoint(folder)"
        )

    def load_state_dict(self, state_dict):
        raise _core.UsageError("optimizer.load_state_dict(): call engine.load_checkpoint(folder)")
