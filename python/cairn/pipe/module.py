"""A module as a list of layers, of which each rank makes those of its stage."""

from __future__ import annotations

import random
from typing import Any, Callable, Optional, Sequence, Union

import torch

from .. import comm
from .._library import _core


class LayerSpec:
    """How to make a layer. Only the stage that has the layer makes it.

    cairn.pipe.LayerSpec(torch.nn.Linear, 8, 16)
    """

    def __init__(self, typename: type, *module_args: Any, **module_kwargs: Any) -> None:
        if not (isinstance(typename, type) and issubclass(typename, torch.nn.Module)):
            raise _core.UsageError(f"LayerSpec: {typename!r} is not a class of torch.nn.Module")
        self.typename = typename
        self.module_args = module_args
        self.module_kwargs = module_kwargs

    def build(self, log: bool = False) -> torch.nn.Module:
        """Makes the layer."""
        return self.typename(*self.module_args, **self.module_kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.typename.__name__})"


class TiedLayerSpec(LayerSpec):
    """How to make a layer that is used in several places. Layers of one `key` are the
    same module, with the same weights, on whichever stages they are; `forward_fn`, called
    with the module and its input, is how it is used in this place."""

    def __init__(
        self,
        key: str,
        typename: type,
        *module_args: Any,
        forward_fn: Optional[Callable[[torch.nn.Module, Any], Any]] = None,
        tied_weight_attr: Union[str, Sequence[str]] = ("weight",),
        **module_kwargs: Any,
    ) -> None:
        super().__init__(typename, *module_args, **module_kwargs)
        self.key = key
        self.forward_fn = forward_fn
        self.tied_weight_attr = [tied_weight_attr] if isinstance(tied_weight_attr, str) else list(tied_weight_attr)


def _call(module, inputs):
    return module(inputs)


class _Layer:
    """A layer as the compiled half asks for it."""

    def __init__(self, owner: Any, number: Any, given: Any) -> None:
        self._owner = owner
        self._number = number
        self._given = given
        self.key = given.key if isinstance(given, TiedLayerSpec) else ""
        self.exists = isinstance(given, torch.nn.Module)
        self.parameters: Optional[int] = None
        self.build: Optional[Callable[[], torch.nn.Module]] = None
        self.call: Callable[[Any, Any], Any] = _call
        if isinstance(given, LayerSpec):
            self.kind = given.typename.__name__
            self.build = self._make
            if isinstance(given, TiedLayerSpec) and given.forward_fn is not None:
                self.call = given.forward_fn
        elif self.exists:
            self.kind = type(given).__name__
            self.build = self._make
        elif callable(given):
            self.kind = getattr(given, "__name__", type(given).__name__)
            self.call = lambda _, inputs: given(inputs)
        else:
            raise _core.UsageError(
                f"PipelineModule: layer {number} is a {type(given).__name__}; give a LayerSpec, a torch.nn.Module or a function"
            )

    def _make(self):
        self._owner._seed(self._number)
        module = self._given if self.exists else self._given.build()
        for name in getattr(self._given, "tied_weight_attr", ()):
            holder = module
            for part in name.split("."):
                if not hasattr(holder, part):
                    raise _core.UsageError(
                        f"PipelineModule: {type(module).__name__} of the tied layer {self.key!r} has no {name!r}; "
                        "name its weight in tied_weight_attr"
                    )
                holder = getattr(holder, part)
        self._owner._made[self._number] = module
        return module

    def count(self) -> None:
        """Counts the parameters, without memory where that goes."""
        if self.build is None:
            self.parameters = 0
            return
        if self.exists:
            module = self._given
        else:
            try:
                with torch.device("meta"):
                    module = self._given.build()
            except Exception:  # a layer that looks at values: it has to be made
                with torch.random.fork_rng(devices=[]):
                    module = self._given.build()
        self.parameters = sum(parameter.numel() for parameter in module.parameters())


def _seed_everything(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed)


class PipelineModule(torch.nn.Module):
    """A module that is cut into stages: stage s of `num_stages` has the layers from
    `cuts[s]` up to `cuts[s + 1]`, and only they are made there. A layer is given what the
    one before returns, a tensor or a tuple of tensors. `loss_fn(outputs, labels)` gives
    the loss; without it the last layer does.

        net = cairn.pipe.PipelineModule(layers, num_stages=2, loss_fn=torch.nn.CrossEntropyLoss())
        engine, *_ = cairn.initialize(net, "ds.json")
        loss = engine.train_batch(batches)

    Layer n starts from the random numbers of the seed plus n, `base_seed` with
    `seed_layers`, so every number of stages starts from the same weights."""

    def __init__(
        self,
        layers: Sequence[Union[LayerSpec, torch.nn.Module, Callable[[Any], Any]]],
        num_stages: Optional[int] = None,
        topology: Any = None,
        loss_fn: Optional[Callable[[Any, Any], torch.Tensor]] = None,
        seed_layers: bool = False,
        seed_fn: Optional[Callable[[int], Any]] = None,
        base_seed: int = 1234,
        partition_method: str = "parameters",
        activation_checkpoint_interval: int = 0,
        activation_checkpoint_func: None = None,
        checkpointable_layers: None = None,
        dynamic_shape: bool = False,
        use_reentrant: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (
            ("activation_checkpoint_func", activation_checkpoint_func),
            ("checkpointable_layers", checkpointable_layers),
            ("use_reentrant", use_reentrant or None),
        ):
            if value is not None:
                raise _core.UsageError(f"PipelineModule: {name} is not built; leave it out")
        if topology is not None:
            if topology.get_dim("pipe") * topology.get_dim("data") != topology.world_size():
                raise _core.UsageError(
                    "PipelineModule: topology has other axes than pipe and data; tensor parallelism of Python modules is not built"
                )
            if num_stages not in (None, topology.get_dim("pipe")):
                raise _core.UsageError(
                    f"PipelineModule: num_stages={num_stages} contradicts the topology's {topology.get_dim('pipe')}"
                )
            num_stages = topology.get_dim("pipe")
        if num_stages is None:
            raise _core.UsageError("PipelineModule: give num_stages or a topology")
        if isinstance(layers, torch.nn.Sequential):
            layers = list(layers)
        self._seeding = (seed_fn or _seed_everything, base_seed) if seed_layers else None
        self._made: dict[int, torch.nn.Module] = {}
        all_layers = [_Layer(self, number, given) for number, given in enumerate(layers)]
        if num_stages > 1 and partition_method.lower() in ("parameters", "best"):
            for layer in all_layers:
                layer.count()
        self.loss_fn = loss_fn
        self.num_stages = num_stages
        self.layers = torch.nn.Module()
        self._core = _core.PipelineModule(
            comm.world(),
            num_stages,
            all_layers,
            loss_fn,
            partition_method.lower() if not partition_method.startswith("type:") else partition_method,
            activation_checkpoint_interval,
            base_seed if seed_layers else None,
        )
        cuts = self._core.cuts
        own = range(cuts[self.stage_id], cuts[self.stage_id + 1])
        copied = set(self._core.copied_keys)
        # Copies of another stage's layers are no parameters of this one.
        self._copies = [self._made[number] for number in own if number in self._made and all_layers[number].key in copied]
        for number in own:
            if number in self._made and all_layers[number].key not in copied:
                self.layers.add_module(str(number), self._made[number])

    def train(self, mode: bool = True) -> PipelineModule:
        """Training or evaluation mode, of this stage's layers."""
        super().train(mode)
        for copy in getattr(self, "_copies", ()):
            copy.train(mode)
        return self

    def _seed(self, number):
        if self._seeding is not None:
            seed, base = self._seeding
            seed(base + number)

    @property
    def stage_id(self) -> int:
        """The stage of this rank."""
        return self._core.stage

    @property
    def cuts(self) -> list[int]:
        """Stage s has the layers from cuts[s] up to cuts[s + 1]."""
        return self._core.cuts

    def forward(self, *_: Any, **__: Any) -> Any:
        """Refused: a stage alone computes nothing."""
        raise _core.UsageError("PipelineModule: pass it to cairn.initialize() and call engine.train_batch(data_iter)")


__all__ = ["LayerSpec", "PipelineModule", "TiedLayerSpec"]
