"""The engine of a module that is cut into stages."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional

import torch

from .._graphed import refuse_between_passes
from .._library import _core
from ..data import EngineLoader, RepeatingLoader
from ..engine import Engine


def _tensors(value: Any) -> list[torch.Tensor]:
    if value is None:
        return []
    return [value] if isinstance(value, torch.Tensor) else list(value)


class PipelineEngine(Engine):
    """Trains a PipelineModule. Made by initialize(); every rank makes the same calls."""

    def __init__(self, module: Any, core: Any, groups: Any, settings: Any, client: Any = None) -> None:
        super().__init__(module, core, groups, settings, client)
        self._batches: Optional[Iterator] = None

    def is_first_stage(self) -> bool:
        """True on the stage that takes the inputs."""
        return self.module.stage_id == 0

    def is_last_stage(self) -> bool:
        """True on the stage that computes the loss."""
        return self.module.stage_id + 1 == self.module.num_stages

    @property
    def num_stages(self) -> int:
        """The number of stages."""
        return self.module.num_stages

    @property
    def stage_id(self) -> int:
        """The stage of this rank."""
        return self.module.stage_id

    @property
    def micro_batches(self) -> int:
        """Micro batches of an update, on each copy of the model."""
        return self.gradient_accumulation_steps()

    def set_dataloader(self, loader: Any) -> None:
        """Makes train_batch() without an iterator take its items from here."""
        self.training_dataloader = loader
        self._batches = iter(RepeatingLoader(loader))

    def set_dataiterator(self, iterator: Iterator) -> None:
        """Makes train_batch() without an iterator take its items from here."""
        self._batches = iterator

    def train_batch(self, data_iter: Optional[Iterator] = None) -> torch.Tensor:
        """Runs the passes of all stages for the micro batches of an update, and the update.
        An item is (inputs, labels), each a tensor or a tuple. Only the first and the last
        stage take items; copies of the model take their own. Returns the mean loss of
        all, on every rank."""
        self._refuse_recording("engine.train_batch()")
        if not self.module.training:
            raise _core.UsageError("train_batch() while evaluating; call engine.train() first")
        if self.num_stages > 1:
            refuse_between_passes(self.module)
        next_batch = self._next_of(self._batches_of(data_iter))
        self.optimizer.push()
        skipped = self.skipped_steps
        with self._whole():
            loss = self._core.train_batch(next_batch)
        self._move_schedule(skipped)
        return loss

    def eval_batch(
        self,
        data_iter: Iterator,
        num_micro_batches: Optional[int] = None,
        return_logits: bool = False,
        compute_loss: bool = True,
        reduce_output: Optional[str] = "avg",
        bcast_loss: bool = True,
    ) -> torch.Tensor:
        """The mean loss of micro batches over all copies of the model, on every rank,
        without gradients and in evaluation mode."""
        if return_logits or not compute_loss or reduce_output != "avg" or not bcast_loss:
            raise _core.UsageError("eval_batch() of a pipeline returns the mean loss on every rank; leave the other options out")
        self._refuse_recording("engine.eval_batch()")
        was = self.module.training
        self.eval()
        try:
            with self._whole():
                return self._core.eval_batch(self._next_of(data_iter), num_micro_batches)
        finally:
            self.train(was)

    @contextlib.contextmanager
    def _whole(self):
        """A batch in which the parameters of compiled layers are whole at stage 3: the
        core calls the layers, not the module's forward."""
        passes = self._whole_passes
        if passes is not None:
            passes.begin()
        try:
            yield
        finally:
            if passes is not None:
                passes.close()

    def compile(self, *args: Any, **options: Any) -> None:
        """Refused: the engine calls the layers of a stage one by one."""
        raise _core.UsageError("engine.compile() of a pipeline: compile its layers, layer.compile(), before initialize()")

    def _batches_of(self, data_iter):
        if data_iter is None:
            data_iter = self._batches
            if data_iter is None and self.training_dataloader is not None:
                self.set_dataloader(self.training_dataloader)
                data_iter = self._batches
        if data_iter is None:
            raise _core.UsageError("train_batch() needs data_iter, or training_data given to initialize()")
        return data_iter

    @staticmethod
    def _next_of(data_iter):
        def next_batch():
            try:
                item = next(data_iter)
            except StopIteration:
                return None
            if not isinstance(item, (tuple, list)) or len(item) != 2:
                raise _core.UsageError("a micro batch of a pipeline is (inputs, labels)")
            return _tensors(item[0]), _tensors(item[1])

        return next_batch

    def deepspeed_io(self, dataset: Any, batch_size: Optional[int] = None, collate_fn: Optional[Callable[[Any], Any]] = None, num_local_io_workers: int = 0) -> EngineLoader:
        """A loader of the samples of this copy of the model, a micro batch at a time."""
        return EngineLoader(
            dataset,
            batch_size or self.train_micro_batch_size_per_gpu(),
            collate_fn=collate_fn,
            drop_last=True,
            workers=num_local_io_workers,
            ranks=self.module._core.data_size,
            rank=self.module._core.data_rank,
        )

    def module_state_dict(self, exclude_frozen_parameters: bool = False) -> None:
        """Refused: no rank has the whole module."""
        raise _core.UsageError(
            "module_state_dict(): a stage has only its layers; call engine.save_checkpoint(folder), and cairn.load(folder) "
            "gives the weights of all stages"
        )


__all__ = ["PipelineEngine"]
