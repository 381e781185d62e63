#pragma once

#include <cairn/distributed/process_mesh.h>
#include <cairn/pipeline/micro_batch.h>
#include <cairn/pipeline/pipeline_module.h>
#include <pybind11/pybind11.h>

#include <memory>

namespace cairn::python {

/// A pipeline::PipelineModule whose layers are modules and functions of
/// Python's, with the mesh that its stages stand in.
struct PythonPipeline {
  distributed::ProcessMesh mesh;
  std::shared_ptr<pipeline::PipelineModule> module;
};

/// Micro batches from a function of Python's that returns two lists of tensors,
/// the inputs and the labels, or None after the last one. The function is
/// called with the interpreter's lock.
pipeline::NextMicroBatch micro_batches_of(const pybind11::object& next);

/// Adds PipelineModule.
void add_pipeline(pybind11::module_& module);

} // namespace cairn::python
