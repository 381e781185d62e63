"""Mixtures of experts, at the places where scripts import them from. Experts of
Python modules are not built: using them raises an error that says what is."""

from . import layer, utils

__all__ = ["layer", "utils"]
