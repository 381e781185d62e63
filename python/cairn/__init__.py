"""Trains any torch.nn.Module with ZeRO, offload and mixed precision.

    engine, *_ = cairn.initialize(net, "ds.json")
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()

The names are DeepSpeed's; docs/python.md lists them.
"""

from __future__ import annotations

from typing import NoReturn

from ._library import _core  # isort: skip  (first: it looks whether this is the right torch)

from . import accelerator, checkpointing, comm, data, moe, ops, pipe, runtime, utils, zero
from .arguments import add_config_arguments
from .checkpoint_files import load
from .comm import init_distributed
from .engine import Engine, initialize
from .pipe.engine import PipelineEngine
from .pipe.module import PipelineModule
from .planning import plan
from .refused import refused_name as _refused_name
from .tokenizer import Tokenizer

ConfigError = _core.ConfigError
UsageError = _core.UsageError
DataError = _core.DataError
CheckpointError = _core.CheckpointError
CommError = _core.CommError
InternalError = _core.InternalError
Error = _core.Error

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "CommError",
    "ConfigError",
    "DataError",
    "Engine",
    "Error",
    "InternalError",
    "PipelineEngine",
    "PipelineModule",
    "Tokenizer",
    "UsageError",
    "accelerator",
    "add_config_arguments",
    "checkpointing",
    "comm",
    "data",
    "init_distributed",
    "initialize",
    "load",
    "moe",
    "ops",
    "pipe",
    "plan",
    "runtime",
    "utils",
    "zero",
]


def __getattr__(name: str) -> NoReturn:
    raise _refused_name(__name__, name)
