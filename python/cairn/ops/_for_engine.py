import torch


class ForEngine(torch.optim.Optimizer):
    """An optimizer that says what is wanted, and leaves the update to the engine."""

    def __init__(self, params, name, defaults, settings):
        super().__init__(params, defaults)
        self.cairn_config = {"type": name, "params": settings}

    def step(self, closure=None):
        raise RuntimeError(f"{type(self).__name__} works with an engine only: pass it to cairn.initialize()")
