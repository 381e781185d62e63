#include "distributed.h"
#include "engine.h"
#include "errors.h"
#include "files.h"
#include "pipeline.h"
#include "text_data.h"

#include <pybind11/pybind11.h>

// The compiled half of the Python package; python/cairn/ has what people use.
PYBIND11_MODULE(_core, module) {
  cairn::python::add_errors(module);
  cairn::python::add_distributed(module);
  cairn::python::add_pipeline(module);
  cairn::python::add_engine(module);
  cairn::python::add_files(module);
  cairn::python::add_text_data(module);
}
