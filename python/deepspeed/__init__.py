"""Cairn under DeepSpeed's name, for scripts that say `import deepspeed`.

Install it only where DeepSpeed itself is not: it takes the name. `deepspeed.x.y` is
`cairn.x.y` for every module that Cairn has."""

import importlib
import sys

import cairn as _cairn
from cairn import *  # noqa: F403
from cairn import __version__  # noqa: F401
from cairn.engine import Engine as DeepSpeedEngine  # noqa: F401

for _name in [name for name in sys.modules if name.startswith("cairn.")]:
    sys.modules[__name__ + _name[len("cairn") :]] = sys.modules[_name]

# Where DeepSpeed has a module of another name.
_places = {
    "ops.adam.cpu_adam": "ops.adam",
    "ops.adam.fused_adam": "ops.adam",
    "runtime.zero": "zero",
    "runtime.engine": "engine",
    "runtime.dataloader": "data",
    "runtime.activation_checkpointing": "checkpointing",
    "runtime.activation_checkpointing.checkpointing": "checkpointing",
    "runtime.pipe": "pipe",
    "runtime.pipe.engine": "pipe.engine",
    "runtime.pipe.module": "pipe.module",
    "runtime.pipe.topology": "pipe.topology",
    "utils.logging": "utils",
    "accelerator.real_accelerator": "accelerator",
}
for _theirs, _ours in _places.items():
    sys.modules[f"{__name__}.{_theirs}"] = importlib.import_module(f"cairn.{_ours}")


def __getattr__(name):
    return getattr(_cairn, name)
