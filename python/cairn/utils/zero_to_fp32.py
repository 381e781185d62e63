"""Whole fp32 weights of a checkpoint whose ranks saved their parts."""

from __future__ import annotations

import os
from typing import Optional

import torch

from .._library import _core
from ..checkpoint_files import load, save_weights


def get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir: str | os.PathLike[str], tag: Optional[str] = None, exclude_frozen_parameters: bool = False, lazy_mode: bool = False) -> dict[str, torch.Tensor]:
    """The weights in fp32, as a dict of tensors."""
    if exclude_frozen_parameters or lazy_mode:
        raise _core.UsageError("zero_to_fp32: exclude_frozen_parameters and lazy_mode are not built")
    return load(checkpoint_dir, tag, fp32=True)


def convert_zero_checkpoint_to_fp32_state_dict(checkpoint_dir: str | os.PathLike[str], output_file: str | os.PathLike[str], tag: Optional[str] = None, exclude_frozen_parameters: bool = False) -> None:
    """Writes them into a file of torch.save."""
    if exclude_frozen_parameters:
        raise _core.UsageError("zero_to_fp32: exclude_frozen_parameters is not built")
    folder, name = os.path.split(os.path.abspath(os.fspath(output_file)))
    save_weights(get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag), os.path.join(folder, name))


def load_state_dict_from_zero_checkpoint(model: torch.nn.Module, checkpoint_dir: str | os.PathLike[str], tag: Optional[str] = None) -> torch.nn.Module:
    """Loads them into a module, and returns it."""
    model.load_state_dict(get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag), strict=False)
    return model.cpu()
