"""Loads the compiled half of the package, after torch, whose libraries it needs."""

import importlib.util
import warnings

import torch

_BUILT_FOR = "2.11.0"

_found = torch.__version__.split("+")[0]
if _found != _BUILT_FOR:
    raise ImportError(
        f"cairn is built for torch {_BUILT_FOR}, and this is torch {_found} "
        f"({torch.__file__}). Install the right one: pip install torch=={_BUILT_FOR}"
    )

_has_gpu = torch.cuda.is_available()
_is_for_gpus = importlib.util.find_spec(f"{__package__}._cuda._core") is not None
if _has_gpu and not _is_for_gpus:
    warnings.warn(
        "torch sees a GPU, but this build of cairn has no GPU parts and trains on the CPU. "
        "In a checkout, CAIRN_GPU=1 pip install . builds them; CUDA_VISIBLE_DEVICES= says that the CPU is wanted",
        RuntimeWarning,
        stacklevel=3,
    )

# Neither can be loaded before torch.
if _has_gpu and _is_for_gpus:
    from ._cuda import _core
else:
    from . import _core

__all__ = ["_core"]
