"""Mixtures of experts in Python modules, at the places where scripts import them from."""

from . import layer, utils

__all__ = ["layer", "utils"]
