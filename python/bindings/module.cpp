#include "distributed.h"
#include "engine.h"
#include "errors.h"
#include "experts.h"
#include "files.h"
#include "mesh.h"
#include "pipeline.h"
#include "plan.h"
#include "text_data.h"

#include <pybind11/pybind11.h>

// The compiled half of the Python package; python/cairn/ has what people use.
PYBIND11_MODULE(_core, module) {
  cairn::python::add_errors(module);
  cairn::python::add_distributed(module);
  cairn::python::add_mesh(module);
  cairn::python::add_experts(module);
  cairn::python::add_pipeline(module);
  cairn::python::add_engine(module);
  cairn::python::add_files(module);
  cairn::python::add_plan(module);
  cairn::python::add_text_data(module);
}
