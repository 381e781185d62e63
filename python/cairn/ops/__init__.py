"""Optimizers under the names that DeepSpeed gives them."""

from . import adagrad, adam, lamb, lion

__all__ = ["adagrad", "adam", "lamb", "lion"]
