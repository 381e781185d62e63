"""Datasets of .bin/.idx files, and loaders of a rank's own samples."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Sequence

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from . import comm
from ._library import _core


class IndexedDataset(torch.utils.data.Dataset):
    """The sequences in PREFIX.bin and PREFIX.idx, as `cairn preprocess` and Megatron
    write them: item i is a tensor of token ids."""

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        self._prefix = os.fspath(prefix)
        self._files = _core.IndexedDataset(self._prefix)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        return self._files[index]

    @property
    def tokens(self) -> int:
        """The number of tokens in all sequences."""
        return self._files.tokens

    def __reduce__(self) -> Any:  # to the processes of a DataLoader
        return IndexedDataset, (self._prefix,)


class GPTDataset(torch.utils.data.Dataset):
    """Samples of one length, cut from shuffled documents: sample for sample those of
    Megatron's GPTDataset. An item is a dict of tensors: tokens, labels, loss_mask
    and position_ids.

        train, valid, test = cairn.data.GPTDataset.splits("my_text_document", 1024, split="949,50,1")
    """

    def __init__(self, samples: Any) -> None:
        self._samples = samples

    @classmethod
    def splits(
        cls,
        data_path: str | os.PathLike | Sequence[str],
        sequence_length: int,
        split: str = "969, 30, 1",
        samples: Sequence[Optional[int]] = (None, None, None),
        seed: int = 1234,
        eod: int = 0,
        cache_path: str | os.PathLike | None = None,
        reset_position_ids: bool = False,
        eod_mask_loss: bool = False,
    ) -> tuple[Optional[GPTDataset], ...]:
        """Training, validation and test samples; None for a part without documents.
        `data_path` is a prefix, or the words of Megatron's --data-path. `samples` says
        how many of each are wanted; None: one epoch."""
        words = [data_path] if isinstance(data_path, (str, os.PathLike)) else list(data_path)
        built = _core.build_gpt_datasets(
            [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words],
            sequence_length,
            split,
            tuple(samples),
            seed,
            eod,
            cache_path,
            reset_position_ids,
            eod_mask_loss,
        )
        return tuple(cls(part) if part is not None else None for part in built)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        return self._samples[index]


class EngineLoader:
    """Micro batches of this rank's samples, each epoch in another order."""

    def __init__(
        self, dataset: Any, batch_size: int, collate_fn: Optional[Callable[[Any], Any]] = None, drop_last: bool = False, workers: int = 0, shuffle: bool = True, ranks: Any = None, rank: Any = None
    ) -> None:
        if isinstance(dataset, torch.utils.data.IterableDataset):
            self._sampler = None
        else:
            self._sampler = DistributedSampler(
                dataset,
                num_replicas=comm.get_world_size() if ranks is None else ranks,
                rank=comm.get_rank() if rank is None else rank,
                shuffle=shuffle,
            )
        self._loader = DataLoader(
            dataset,
            batch_size=batch_size,
            sampler=self._sampler,
            collate_fn=collate_fn,
            drop_last=drop_last,
            num_workers=workers,
        )
        self._epoch = -1

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Any:
        self._epoch += 1
        if self._sampler is not None:
            self._sampler.set_epoch(self._epoch)
        return iter(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """The next loop goes through this epoch."""
        self._epoch = epoch - 1


class RepeatingLoader:
    """A loader without an end: it begins again."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._items = iter(loader)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._items)
        except StopIteration:
            self._items = iter(self._loader)
            return next(self._items)
