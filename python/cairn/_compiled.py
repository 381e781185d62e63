"""torch.compile at ZeRO stage 3.

Compiled code reads parameters through their addresses, where the engine sees no operator
to gather them for. So where anything is compiled, the parameters are whole over a pass:
from the module's forward to the end of backward, or of forward without gradients.

Each rank decides by itself that something is compiled, since a pass may be one rank's
alone, as in an evaluation. Ranks run the same program, so they begin in the same pass.
Where they do not, they gather in another order, and the engine's check of that names a
rank and its parameters. Only initialize() asks all ranks what they have compiled."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch

from ._library import _core


def _is_compiled(module):
    return any(
        part._compiled_call_impl is not None or isinstance(part, torch._dynamo.OptimizedModule) for part in module.modules()
    )


def has_compiled(module: torch.nn.Module) -> bool:
    """True when the module has compiled parts, or this process has compiled something
    before: a function that the module calls may be among it."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return _is_compiled(module) or (dynamo is not None and dynamo.counters["frames"]["total"] > 0)


class WholePasses:
    """Makes parameters whole over the passes of a module, once anything is compiled."""

    def __init__(self, engine: Any, module: torch.nn.Module, sliced: list[torch.nn.Parameter], wanted: bool) -> None:
        import torch._dynamo.callback as callbacks

        self._engine = weakref.ref(engine)
        self._sliced = sliced
        self._scope: Any = None
        self._inside = False
        self._wanted = wanted
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

        self._hooks = [
            module.register_forward_pre_hook(before),
            module.register_forward_hook(after, always_call=True),
        ]
        callbacks.callback_handler.register_start_callback(compiles)
        self._forget = weakref.finalize(self, callbacks.callback_handler.remove_start_callback, compiles)

    def want(self) -> None:
        """Begins now: something is compiled, or about to be."""
        self._wanted = True
        if self._inside:
            self._open()

    def begin(self) -> None:
        """A pass begins: what is compiled from here on finds whole parameters."""
        self._inside = True
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

    def remove(self) -> None:
        """Leaves the module alone from here on."""
        self.close()
        for hook in self._hooks:
            hook.remove()
        self._forget()
