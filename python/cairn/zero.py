"""ZeRO stage 3 from Python: parameters that are born sliced, and parameters made
whole for a while."""

from __future__ import annotations

import json
import os
import weakref
from typing import Any, Optional

import torch

from . import comm
from ._library import _core

_engines = weakref.WeakSet()


def read_config(config: Any) -> dict[str, Any]:
    """A configuration as a dict, from a path or from a dict."""
    if config is None:
        return {}
    if isinstance(config, dict):
        return config
    with open(os.fspath(config), encoding="utf-8") as file:
        return json.load(file)


class Init:
    """A scope in which parameters are born sliced: a rank keeps its part of each as
    soon as a module has filled it, so a model larger than its memory can be built.

        with cairn.zero.Init():
            net = Net()

    If a configuration is given, it does so only where that says stage 3.
    `mem_efficient_linear` changes nothing: no layer is replaced."""

    def __init__(
        self,
        module: Any = None,
        data_parallel_group: Any = None,
        mem_efficient_linear: bool = True,
        remote_device: Any = None,
        pin_memory: bool = False,
        config_dict_or_path: Any = None,
        config: Any = None,
        enabled: bool = True,
        dtype: Optional[torch.dtype] = None,
        mpu: Any = None,
        **others: Any,
    ) -> None:
        for name, value in (
            ("module", module),
            ("data_parallel_group", data_parallel_group),
            ("mpu", mpu),
            ("remote_device", remote_device),
            ("pin_memory", pin_memory or None),
            *others.items(),
        ):
            if value is not None:
                raise _core.UsageError(f"zero.Init: {name} is not built; leave it out")
        settings = read_config(config_dict_or_path if config_dict_or_path is not None else config)
        if settings and settings.get("zero_optimization", {}).get("stage", 0) != 3:
            enabled = False
        if dtype is None and settings:
            for section, kind in (("bf16", torch.bfloat16), ("fp16", torch.half)):
                if settings.get(section, {}).get("enabled"):
                    dtype = kind
        self._scope = _core.Init(dtype, enabled, comm.world() if enabled else None)

    def __enter__(self) -> Init:
        self._scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)


def _engine_of(parameter):
    for engine in _engines:
        if id(parameter) in engine._parameter_ids:
            return engine
    return None


def is_sliced(parameter: torch.Tensor) -> bool:
    """True while a rank has no more than its part of the parameter."""
    return parameter.numel() > 0 and parameter.untyped_storage().nbytes() == 0


class GatheredParameters:
    """A scope in which parameters are whole on every rank, to read, or to change on
    `modifier_rank`. Every rank opens it with the same parameters.

        with cairn.zero.GatheredParameters(net.head.weight, modifier_rank=0):
            if cairn.comm.get_rank() == 0:
                net.head.weight.data.zero_()
    """

    def __init__(self, params: Any, modifier_rank: Optional[int] = None, fwd_module: Any = None, enabled: bool = True) -> None:
        self._scope = None
        if not enabled:
            return
        params = [params] if isinstance(params, torch.Tensor) else list(params)
        engines = {_engine_of(parameter) for parameter in params}
        if engines == {None} or not engines:
            return  # no engine has sliced them: an operator makes them whole by itself
        if len(engines) > 1:
            raise _core.UsageError("zero.GatheredParameters: the parameters belong to several engines; open a scope each")
        self._scope = _core.GatheredParameters(engines.pop()._core, params, modifier_rank)

    def __enter__(self) -> None:
        if self._scope is not None:
            self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._scope is not None:
            self._scope.__exit__(*error)
