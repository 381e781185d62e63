"""Pipelines: layers that are cut into stages, each of them on ranks of its own."""

from .module import LayerSpec, PipelineModule, TiedLayerSpec
from .topology import PipeDataParallelTopology

__all__ = ["LayerSpec", "PipeDataParallelTopology", "PipelineModule", "TiedLayerSpec"]
