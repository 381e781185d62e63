"""Modules at the places where DeepSpeed has them."""

from . import lr_schedules

__all__ = ["lr_schedules"]
