"""Loads the compiled half of the package, after torch, whose libraries it needs."""

import importlib.util

import torch

_BUILT_FOR = "2.11.0"

_found = torch.__version__.split("+")[0]
if _found != _BUILT_FOR:
    raise ImportError(
        f"cairn is built for torch {_BUILT_FOR}, and this is torch {_found} "
        f"({torch.__file__}). Install the right one: pip install torch=={_BUILT_FOR}"
    )

# Neither can be loaded before torch.
if torch.cuda.is_available() and importlib.util.find_spec(f"{__package__}._cuda._core"):
    from ._cuda import _core
else:
    from . import _core

__all__ = ["_core"]
