"""Loaders of a rank's own samples."""

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from . import comm


class EngineLoader:
    """Micro batches of this rank's samples, each epoch in another order."""

    def __init__(self, dataset, batch_size, collate_fn=None, drop_last=False, workers=0, shuffle=True):
        if isinstance(dataset, torch.utils.data.IterableDataset):
            self._sampler = None
        else:
            self._sampler = DistributedSampler(
                dataset, num_replicas=comm.get_world_size(), rank=comm.get_rank(), shuffle=shuffle
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

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        self._epoch += 1
        if self._sampler is not None:
            self._sampler.set_epoch(self._epoch)
        return iter(self._loader)

    def set_epoch(self, epoch):
        """The next loop goes through this epoch."""
        self._epoch = epoch - 1


class RepeatingLoader:
    """A loader without an end: it begins again."""

    def __init__(self, loader):
        self._loader = loader
        self._items = iter(loader)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return next(self._items)
        except StopIteration:
            self._items = iter(self._loader)
            return next(self._items)
