"""torch.compile at ZeRO stage 3.

Compiled code reads parameters through their addresses, where the engine sees no operator
to gather them for. So where anything is compiled, the parameters are whole over a pass:
from the module's forward to the end of backward, or of forward without gradients."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch

from . import comm
from ._library import _core


def _is_compiled(module):
    return any(
        part._compiled_call_impl is not None or isinstance(part, torch._dynamo.OptimizedModule) for part in module.modules()
    )


def _has_compiled():
    """True when this process has compiled something before: a function that a module
    calls may be among it."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and dynamo.counters["frames"]["total"] > 0


class WholePasses:
    """Makes parameters whole over the passes of a module, once anything is compiled on
    any rank. All ranks begin with it in the same pass: making parameters whole takes all
    of them."""

    def __init__(self, engine: Any, module: torch.nn.Module, sliced: list[torch.nn.Parameter]) -> None:
        import torch._dynamo.callback as callbacks

        self._engine = weakref.ref(engine)
        self._sliced = sliced
        self._scope: Any = None
        self._inside = False
        self._seen = _is_compiled(module) or _has_compiled()  # by this rank
        self._wanted = False  # by all ranks
        mine = weakref.ref(self)

        # Code that compiles the module must not look into these.
        @torch._dynamo.disable
        def before(*_: Any) -> None:
            passes = mine()
            if passes is not None:
                passes.begin()

        @torch._dynamo.disable
        def after(*_: Any) -> None:
            passes = mine()
            if passes is not None:
                passes._end()

        def compiles(*_: Any) -> None:
            passes = mine()
            if passes is not None:
                passes.want()

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after, always_call=True)
        callbacks.callback_handler.register_start_callback(compiles)
        weakref.finalize(self, callbacks.callback_handler.remove_start_callback, compiles)

    def want(self) -> None:
        """Something is compiled, or about to be. Within a pass it begins at once: then
        all ranks compile in this place, because none of them had compiled anything."""
        self._seen = True
        if self._inside:
            self._open()

    def begin(self) -> None:
        """A pass begins: what is compiled from here on finds whole parameters."""
        self._inside = True
        if not self._wanted:
            self._wanted = comm.on_any_rank(self._seen)
        if self._wanted:
            self._open()

    def _end(self):
        self._inside = False
        # What backward reads is whole until then.
        if not torch.is_grad_enabled():
            self.close()

    def _open(self):
        engine = self._engine()
        if self._scope is None and engine is not None and self._sliced:
            scope = _core.GatheredParameters(engine._core, self._sliced, None)
            scope.__enter__()
            self._scope = scope

    def close(self) -> None:
        """Lets the parameters be sliced again."""
        self._inside = False
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.__exit__(None, None, None)
