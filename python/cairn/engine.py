"""The engine, and initialize() which makes it."""

from __future__ import annotations

import json
import os
import warnings
import weakref
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

import torch

from . import comm, model_parallel, zero
from ._compiled import WholePasses, has_compiled
from ._graphed import refuse_earlier
from ._library import _core
from .checkpoint_files import save_weights
from .data import EngineLoader
from .moe.experts import DividedExperts, has_divided_experts
from .moe.mesh import mesh_of
from .optimizer import EngineOptimizer, translated
from .pipe.module import PipelineModule


def initialize(
    model: torch.nn.Module = None,
    config: Union[str, os.PathLike, Mapping[str, Any], None] = None,
    *,
    args: Any = None,
    optimizer: Union[torch.optim.Optimizer, Callable[..., torch.optim.Optimizer], None] = None,
    model_parameters: Optional[Iterable] = None,
    training_data: Optional[torch.utils.data.Dataset] = None,
    lr_scheduler: Any = None,
    distributed_port: Optional[int] = None,
    mpu: Any = None,
    dist_init_required: Optional[bool] = None,
    collate_fn: Optional[Callable] = None,
    config_params: Union[str, os.PathLike, Mapping[str, Any], None] = None,
    mesh_param: None = None,
) -> tuple[Engine, EngineOptimizer, Optional[EngineLoader], Any]:
    """Makes a module trainable as the configuration says. Returns the engine, its
    optimizer, a loader if `training_data` is given, and the learning-rate schedule.

    `mpu` has the groups of a program that divides its layers itself. Parameters of which
    a rank has a part are marked as Megatron's are: `tensor_model_parallel` or
    `model_parallel`, with `partition_dim`.

    `config` is the path of a DeepSpeed JSON file, or a dict.

        engine, optimizer, loader, schedule = cairn.initialize(net, "ds.json")
    """
    from .pipe.engine import PipelineEngine  # it is an Engine, so it comes after this module

    if not isinstance(model, torch.nn.Module):
        raise _core.UsageError(f"initialize: model is a {type(model).__name__}, not a torch.nn.Module")
    refuse_earlier(model)
    if mesh_param is not None:
        raise _core.UsageError(
            "initialize: mesh_param divides sequences over ranks, which is not built for Python modules; leave it out"
        )
    pipeline = isinstance(model, PipelineModule)
    divides = has_divided_experts(model)
    if pipeline:  # one stage may have them where another has none
        divides = comm.on_any_rank(divides)
    if pipeline + divides + (mpu is not None) > 1:
        raise _core.UsageError(
            "initialize: a PipelineModule, layers of experts with ep_size above 1, and mpu each divide the ranks in a way "
            "of their own; use one of them"
        )
    experts = DividedExperts(model)
    if mpu is not None or experts.ranks > 1:
        comm.init_distributed(distributed_port=distributed_port, dist_init_required=dist_init_required)
    mesh = model_parallel.mesh_of(mpu) if mpu is not None else mesh_of(experts.ranks)
    copies = model._core.data_size if pipeline else mesh.size(_core.Axis.data) if mesh is not None else None
    settings = _settings(config if config is not None else config_params, args, copies)
    groups = _groups(model_parameters)
    client = None
    if optimizer is not None:
        if callable(optimizer) and not isinstance(optimizer, torch.optim.Optimizer):
            optimizer = optimizer([p for p in model.parameters() if p.requires_grad])
        section, client = translated(optimizer, settings.get("zero_allow_untested_optimizer"))
        settings.pop("optimizer", None)
        if section is not None:
            settings["optimizer"] = section
        groups = [dict(group) for group in optimizer.param_groups]
    if lr_scheduler is not None:
        settings.pop("scheduler", None)
    comm.init_distributed(distributed_port=distributed_port, dist_init_required=dist_init_required)
    core = _core.initialize(
        model._core if pipeline else model,
        json.dumps(settings),
        [] if client is not None else groups,
        client,
        [],
        comm.world(),
        mesh,
        model_parallel.slices_of(model, mesh) if mpu is not None else [],
        experts.own,
    )
    engine = (PipelineEngine if pipeline else Engine)(model, core, groups, settings, client)
    engine._mesh = mesh
    engine._experts = experts
    engine._adopt(lr_scheduler, optimizer)
    if training_data is not None:
        engine.training_dataloader = engine.deepspeed_io(training_data, collate_fn=collate_fn)
    return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler


def _settings(config, args, copies):
    """The configuration as a dict of our own, from an argument or from the flags.
    `copies` is the number of copies of the model; None: one on each rank."""
    if config is None and args is not None:
        for name in ("deepspeed_config", "deepscale_config"):
            config = config if config is not None else getattr(args, name, None)
    if config is None:
        raise _core.ConfigError(
            "initialize: no configuration; pass config= with the path of a DeepSpeed JSON file or a dict, "
            "or args with --deepspeed_config"
        )
    if isinstance(config, dict):
        return json.loads(json.dumps(config))
    path = os.fspath(config)
    # The file is read as Cairn reads it, which names the line of a mistake.
    _core.check_config_file(path, copies or comm.world().size)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _groups(model_parameters):
    """Parameter groups from what torch's optimizers take."""
    if model_parameters is None:
        return []
    given = list(model_parameters)
    if not given:
        raise _core.UsageError("initialize: model_parameters is empty; a generator can be gone through only once")
    if isinstance(given[0], dict):
        return [{**group, "params": _trained(group["params"])} for group in given]
    if isinstance(given[0], tuple):  # named_parameters()
        given = [parameter for _, parameter in given]
    return [{"params": _trained(given)}]


def _trained(parameters):
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    return [parameter for parameter in parameters if parameter.requires_grad]


class Engine(torch.nn.Module):
    """Trains a module. Made by initialize(); every rank makes the same calls."""

    def __init__(self, module: Any, core: Any, groups: Any, settings: Any, client: Any = None) -> None:
        super().__init__()
        self.module = module
        self._core = core
        self._config = settings
        self._settings = core.settings()
        self._on_gpu = self.device.type == "cuda"
        self._parameter_ids = {id(parameter) for parameter in module.parameters()}
        zero._engines.add(self)
        self._compute = (
            torch.half
            if self._settings["fp16_enabled"]
            else torch.bfloat16 if self._settings["bfloat16_enabled"] else torch.float
        )
        if not groups:
            groups = [{"params": [p for p in module.parameters() if p.requires_grad]}]
        self.optimizer = EngineOptimizer(core, groups, client)
        self.lr_scheduler = None
        self.training_dataloader = None
        self._scheduler_of_program = False
        self._whole_passes = None
        self._mesh = None
        self._experts = None
        if self.zero_optimization_stage() == 3:
            _guard_state_dict(module)
            sliced = [parameter for parameter in module.parameters() if zero.is_sliced(parameter)]
            compiled = comm.on_any_rank(has_compiled(module))
            if sliced:
                self._whole_passes = WholePasses(self, module, sliced, compiled)

    def _adopt(self, lr_scheduler, client_optimizer):
        """Takes a schedule of the program's, or shows the configured one."""
        if lr_scheduler is None:
            self.lr_scheduler = ConfiguredSchedule(self) if "scheduler" in self._config else None
            return
        if isinstance(lr_scheduler, torch.optim.lr_scheduler.LRScheduler):
            theirs = lr_scheduler.optimizer
            if theirs not in (client_optimizer, self.optimizer):
                raise _core.UsageError("initialize: lr_scheduler belongs to another optimizer than the one passed")
            lr_scheduler.optimizer = self.optimizer
            for mine, group in zip(self.optimizer.param_groups, theirs.param_groups):
                mine.update({name: value for name, value in group.items() if name != "params"})
        elif callable(lr_scheduler):
            lr_scheduler = lr_scheduler(self.optimizer)
        self.lr_scheduler = lr_scheduler
        self._scheduler_of_program = True
        self.optimizer.push()

    # --- the passes ---

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The module's forward. Floating-point tensors come in the type that the
        module computes in, on its device; integers are moved, never cast."""
        self._refuse_recording("engine(…)")
        inputs = [self._prepared(each) for each in inputs]
        named = {name: self._prepared(each) for name, each in named.items()}
        return self._core.forward(*inputs, **named)

    def _prepared(self, value):
        if isinstance(value, torch.Tensor):
            if value.is_floating_point():
                return value.to(self.device, self._compute)
            return value.to(self.device)
        if isinstance(value, (list, tuple)):
            made = [self._prepared(each) for each in value]
            return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
        if isinstance(value, dict):
            return {name: self._prepared(each) for name, each in value.items()}
        return value

    def backward(
        self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True, **refused: Any
    ) -> torch.Tensor:
        """Scales the loss, divides it by the accumulation steps, and runs autograd."""
        if retain_graph or not scale_wrt_gas or refused:
            raise _core.UsageError("backward(loss) takes the loss alone: the engine keeps no graph, and it divides the loss")
        self._refuse_recording("engine.backward(loss)")
        try:
            self._core.backward(loss)
        finally:
            if self._whole_passes is not None:
                self._whole_passes.close()
        return loss

    def step(self, lr_kwargs: None = None) -> None:
        """Counts a micro batch; at the end of an accumulation clips, updates, forgets
        the gradients, and moves the schedule on."""
        if lr_kwargs is not None:
            raise _core.UsageError("step(): lr_kwargs is not used")
        self._refuse_recording("engine.step()")
        updates = self.is_gradient_accumulation_boundary()
        self.optimizer.push()
        skipped = self.skipped_steps
        self._core.step()
        if updates:
            self._move_schedule(skipped)

    def _move_schedule(self, skipped):
        """After an update: `skipped` is the number of skipped ones before it."""
        if self._scheduler_of_program:
            if self.skipped_steps == skipped:
                self.lr_scheduler.step()
                self.optimizer.push()
        else:
            self.optimizer.pull()

    def _refuse_recording(self, call):
        # Repeating the kernels alone would leave out what the engine does on the host.
        if self._on_gpu and torch.cuda.is_current_stream_capturing():
            raise _core.UsageError(
                f"{call} is not to be recorded for a CUDA graph; record parts of the module (torch.cuda.make_graphed_callables), "
                'or use engine.compile(mode="reduce-overhead"), where no weights are sliced'
            )

    def train_batch(self, data_iter: Iterator) -> torch.Tensor:
        """Runs all micro batches of an update, and the update. An item of the
        iterator is what forward() takes; forward returns the loss. Returns the mean."""
        losses = []
        for _ in range(self.gradient_accumulation_steps()):
            loss = self._loss_of(next(data_iter))
            losses.append(loss.detach())
            self.backward(loss)
            self.step()
        return torch.stack(losses).float().mean()

    @torch.no_grad()
    def eval_batch(self, data_iter: Iterator, num_micro_batches: Optional[int] = None) -> torch.Tensor:
        """The mean loss of micro batches, without gradients, in evaluation mode."""
        was = self.module.training
        self.eval()
        try:
            count = num_micro_batches or self.gradient_accumulation_steps()
            return torch.stack([self._loss_of(next(data_iter)) for _ in range(count)]).float().mean()
        finally:
            self.train(was)

    def _loss_of(self, batch):
        if isinstance(batch, dict):
            return self(**batch)
        return self(*batch) if isinstance(batch, (list, tuple)) else self(batch)

    def is_gradient_accumulation_boundary(self) -> bool:
        """True when the next step() updates the weights."""
        return self._core.is_gradient_accumulation_boundary()

    def no_sync(self) -> _core.NoSync:
        """A scope whose passes add gradients up without averaging them (stages 0, 1)."""
        return self._core.no_sync()

    def train(self, mode: bool = True) -> Engine:
        """Training or evaluation mode."""
        super().train(mode)
        if hasattr(self, "_core"):
            self._core.train(mode)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: the engine forgets gradients when it has used them."""

    def compile(self, *args: Any, **options: Any) -> None:
        """Compiles the module in place. At stage 3 its parameters are whole over a pass
        then, as they are when the program itself compiles the module or parts of it:
        they take the memory of stage 2, and are sent once a pass."""
        if self._whole_passes is not None:
            if options.get("mode") in ("reduce-overhead", "max-autotune"):
                raise _core.UsageError(
                    f"engine.compile(): mode {options['mode']!r} repeats CUDA graphs, and weights of stage 3 are at other "
                    'addresses each time; use "default" or "max-autotune-no-cudagraphs"'
                )
            self._whole_passes.want()
        self.module.compile(*args, **options)

    def allreduce_gradients(self, bucket_size: Any = None) -> None:
        """Does nothing: backward averages the gradients."""

    # --- facts ---

    @property
    def device(self) -> torch.device:
        """The device as torch names it."""
        return torch.device(self._core.device)

    @property
    def global_rank(self) -> int:
        return self._core.rank

    @property
    def local_rank(self) -> int:
        return comm.get_local_rank()

    @property
    def world_size(self) -> int:
        return comm.get_world_size()

    @property
    def global_steps(self) -> int:
        return self._core.progress()["global_steps"]

    @property
    def global_samples(self) -> int:
        return self._core.progress()["global_samples"]

    @property
    def micro_steps(self) -> int:
        return self._core.progress()["micro_steps"]

    @property
    def skipped_steps(self) -> int:
        return self._core.progress()["skipped_steps"]

    @property
    def config(self) -> dict:
        return self._config

    def train_batch_size(self) -> int:
        return self._core.settings()["train_batch_size"]

    def train_micro_batch_size_per_gpu(self) -> int:
        return self._settings["train_micro_batch_size_per_gpu"]

    def gradient_accumulation_steps(self) -> int:
        return self._core.settings()["gradient_accumulation_steps"]

    def set_train_batch_size(self, train_batch_size: int) -> None:
        """Makes the next updates take so many samples over all ranks."""
        self._core.set_train_batch_size(train_batch_size)

    def zero_optimization(self) -> bool:
        return self.zero_optimization_stage() > 0

    def zero_optimization_stage(self) -> int:
        return self._settings["zero_optimization_stage"]

    def fp16_enabled(self) -> bool:
        return self._settings["fp16_enabled"]

    def bfloat16_enabled(self) -> bool:
        return self._settings["bfloat16_enabled"]

    def gradient_clipping(self) -> float:
        """The norm that gradients are clipped to; 0: they are not."""
        return self._config.get("gradient_clipping", 1.0)

    def dynamic_loss_scale(self) -> bool:
        """True where the loss scale follows overflows."""
        return self.fp16_enabled() and self._config.get("fp16", {}).get("loss_scale", 0) == 0

    @property
    def loss_scale(self) -> float:
        return self._core.loss_scale

    def get_lr(self) -> list[float]:
        """Learning rates of the next update, of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_global_grad_norm(self) -> Optional[float]:
        """Norm of the last update's gradient before clipping; None before the first."""
        return self._core.gradient_norm()

    def memory_report(self) -> dict:
        """Bytes that this rank holds for training, by kind."""
        return self._core.memory_report()

    def describe_memory(self) -> str:
        """memory_report() as a table for people."""
        return self._core.describe_memory()

    # --- checkpoints and weights ---

    def save_checkpoint(
        self,
        save_dir: Union[str, os.PathLike],
        tag: Optional[str] = None,
        client_state: Optional[Mapping[str, Any]] = None,
        save_latest: bool = True,
        exclude_frozen_parameters: bool = False,
        wait: bool = True,
    ) -> bool:
        """Saves everything that training goes on from, under save_dir/tag; without a
        tag under global_stepN. All ranks call it. `wait=False` returns when the values
        are copied, and writes them while training goes on."""
        if not save_latest or exclude_frozen_parameters:
            raise _core.UsageError("save_checkpoint: save_latest=False and exclude_frozen_parameters=True are not built")
        mine = os.path.abspath(os.fspath(save_dir))
        save_dir = comm.of_rank_0(mine)
        if save_dir != mine:
            # Scripts put the time into names. Cairn's checkpoint is one folder.
            warnings.warn(f"rank {self.global_rank} would save to {mine}; all ranks save where rank 0 does, {save_dir}")
        state = dict(client_state or {})
        if self._scheduler_of_program and hasattr(self.lr_scheduler, "state_dict"):
            state["lr_scheduler of the program"] = self.lr_scheduler.state_dict()
        self._core.save_checkpoint(save_dir, None if tag is None else str(tag), state, {}, wait)
        return True

    def finish_checkpoint(self) -> None:
        """Waits for a save under way; raises if the last one failed."""
        self._core.finish_checkpoint()

    def load_checkpoint(
        self,
        load_dir: Union[str, os.PathLike],
        tag: Optional[str] = None,
        load_module_strict: bool = True,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
        custom_load_fn: None = None,
    ) -> tuple[Optional[str], dict]:
        """Goes on from there, whatever the number of ranks, the stage and the precision
        it was saved at. Returns where that was, None if there is nothing, and the
        client state."""
        if not load_module_strict or custom_load_fn is not None:
            raise _core.UsageError("load_checkpoint: load_module_strict=False and custom_load_fn are not built")
        path, state = self._core.load_checkpoint(
            load_dir,
            None if tag is None else str(tag),
            load_optimizer_states,
            load_lr_scheduler_states,
            not load_module_only,
        )
        theirs = state.pop("lr_scheduler of the program", None)
        if theirs is not None and self._scheduler_of_program and load_lr_scheduler_states and not load_module_only:
            self.lr_scheduler.load_state_dict(theirs)
        self.optimizer.pull()
        return path, state

    def full_parameter(self, name: str) -> torch.Tensor:
        """A parameter's values, whole, on every rank; all ranks call it."""
        names = self._experts.names(name) if self._experts is not None else None
        if names is None:
            return self._core.full_parameter(name)
        # Each rank has another expert in this place. The first ranks have all of them.
        values = self._core.full_parameter(names[self.global_rank % len(names)])
        comm.broadcast(values, names.index(name))
        return values

    def _names_everywhere(self):
        """Names of parameters on any rank, each with the name in its place here."""
        for name, parameter in self.module.named_parameters(remove_duplicate=False):
            for each in (self._experts.names(name) if self._experts is not None else None) or [name]:
                yield each, parameter

    def module_state_dict(self, exclude_frozen_parameters: bool = False) -> Optional[dict[str, torch.Tensor]]:
        """The module's state_dict with whole values, on rank 0; None on the others.
        All ranks call it."""
        if exclude_frozen_parameters:
            raise _core.UsageError("module_state_dict: exclude_frozen_parameters=True is not built")
        if self._mesh is not None and self._mesh.size(_core.Axis.tensor) > 1:
            raise _core.UsageError(
                "module_state_dict(): ranks divide the layers, so none has the whole module; call engine.save_checkpoint(folder), "
                "and cairn.load(folder) gives the whole weights"
            )
        state = {} if self.global_rank == 0 else None
        done = {}
        for name, parameter in self._names_everywhere():
            names = (self._experts.names(name) if self._experts is not None else None) or [name]
            key = (id(parameter), names.index(name))
            if key not in done:
                values = self.full_parameter(name)
                done[key] = values.to(self._compute).cpu() if state is not None else None
            if state is not None:
                state[name] = done[key]
        if state is not None:
            kept = _persistent_buffers(self.module)
            state.update({name: value.detach().cpu() for name, value in kept.items()})
        return state

    def _zero3_consolidated_16bit_state_dict(self, exclude_frozen_parameters=False):
        return self.module_state_dict(exclude_frozen_parameters)

    def save_16bit_model(
        self,
        save_dir: Union[str, os.PathLike],
        save_filename: str = "pytorch_model.bin",
        exclude_frozen_parameters: bool = False,
    ) -> bool:
        """Writes the whole model's weights into one file, .bin of torch.save or
        .safetensors. All ranks call it."""
        state = self.module_state_dict(exclude_frozen_parameters)
        if state is not None:
            os.makedirs(save_dir, exist_ok=True)
            save_weights(state, os.path.join(save_dir, save_filename))
        comm.barrier()
        return True

    save_fp16_model = save_16bit_model

    def deepspeed_io(self, dataset: Any, batch_size: Optional[int] = None, collate_fn: Optional[Callable[[Any], Any]] = None, num_local_io_workers: int = 0) -> EngineLoader:
        """A loader of this rank's samples, a micro batch at a time."""
        return EngineLoader(
            dataset,
            batch_size or self.train_micro_batch_size_per_gpu(),
            collate_fn=collate_fn,
            drop_last=bool(self._config.get("dataloader_drop_last", False)),
            workers=num_local_io_workers,
            ranks=self._mesh.size(_core.Axis.data) if self._mesh is not None else None,
            rank=self._mesh.rank(_core.Axis.data) if self._mesh is not None else None,
        )

    def destroy(self) -> None:
        """Lets go of the engine's memory. The module keeps what it has."""
        if self._whole_passes is not None:
            self._whole_passes.remove()
        zero._engines.discard(self)


class ConfiguredSchedule:
    """The schedule of the configuration, which the engine moves."""

    def __init__(self, engine: Engine) -> None:
        self._engine = weakref.ref(engine)

    def get_last_lr(self) -> list[float]:
        """Learning rates of the next update, of each group."""
        return self._engine()._core.learning_rates()

    get_lr = get_last_lr

    def step(self, *_: Any) -> None:
        """Refused: the engine steps."""
        raise _core.UsageError("lr_scheduler.step(): engine.step() moves the schedule on")

    def state_dict(self) -> None:
        """Refused: the engine saves."""
        raise _core.UsageError("lr_scheduler.state_dict(): engine.save_checkpoint() keeps the schedule")


def _persistent_buffers(module):
    kept = {}
    for prefix, part in module.named_modules():
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part._non_persistent_buffers_set:
                kept[f"{prefix}.{name}" if prefix else name] = buffer
    return kept


def _guard_state_dict(module):
    """Makes state_dict() of a module whose parameters are spread over ranks an error:
    a file of it could not be loaded."""

    def refuse(part, state, prefix, metadata):
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and zero.is_sliced(value):
                raise _core.UsageError(
                    f"state_dict(): {name} is spread over the ranks at ZeRO stage 3; call engine.save_16bit_model(folder) "
                    "or engine.module_state_dict() on every rank, or open cairn.zero.GatheredParameters around it"
                )

    module.register_state_dict_post_hook(refuse)
