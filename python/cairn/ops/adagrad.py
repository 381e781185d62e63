"""Adagrad, which only an engine runs."""

from ._for_engine import ForEngine


class DeepSpeedCPUAdagrad(ForEngine):
    """Adagrad in host memory, for `offload_optimizer`."""

    def __init__(self, model_params, lr=1e-2, eps=1e-10, weight_decay=0):
        super().__init__(model_params, "Adagrad", {"lr": lr, "eps": eps, "weight_decay": weight_decay}, {})


__all__ = ["DeepSpeedCPUAdagrad"]
