#include "files.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/config/config.h>
#include <cairn/optim/schedule.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

/// A schedule of DeepSpeed's `scheduler` section, as a function of the updates
/// so far.
struct PythonSchedule {
  PythonSchedule(const std::string& config, const std::vector<double>& lrs)
      : schedule(optim::make_schedule(
            config::Config::load({.json = config}).deepspeed.scheduler,
            lrs)) {}

  py::list at(std::int64_t done) const {
    py::list result;
    for (const optim::GroupValuesPatch& patch : schedule->at(done)) {
      py::dict values;
      if (patch.lr) {
        values["lr"] = *patch.lr;
      }
      if (patch.betas) {
        values["betas"] = py::make_tuple((*patch.betas)[0], (*patch.betas)[1]);
      }
      if (patch.momentum) {
        values["momentum"] = *patch.momentum;
      }
      result.append(std::move(values));
    }
    return result;
  }

  std::unique_ptr<optim::Schedule> schedule;
};

void convert_file(
    const std::filesystem::path& input,
    const std::filesystem::path& output,
    const std::string& to,
    const std::string& tag,
    bool in_fp32) {
  const auto format = checkpoints::checkpoint_format_from(to);
  if (!format) {
    throw UsageError(
        {.what = "unknown format \"" + to + "\"", .where = "convert"});
  }
  checkpoints::ConvertOptions options;
  options.input = input;
  options.tag = tag;
  options.weights_only = true;
  options.output = output;
  options.to = *format;
  options.overwrite = true;
  if (in_fp32) {
    options.type = at::kFloat;
  }
  checkpoints::convert(options);
}

} // namespace

void add_files(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<PythonSchedule>(module, "Schedule")
      .def(py::init<const std::string&, const std::vector<double>&>())
      .def("at", &PythonSchedule::at);
  module.def(
      "check_config_file",
      [](const std::string& path, std::int64_t ranks) {
        config::Config::load({.file = path, .world_size = ranks});
      },
      Unlocked());
  module.def(
      "resolve_config",
      [](const std::string& text, std::int64_t ranks) {
        return config::Config::load({.json = text, .world_size = ranks}).json();
      },
      Unlocked());
  module.def(
      "convert",
      &convert_file,
      py::arg("input"),
      py::arg("output"),
      py::arg("to"),
      py::arg("tag"),
      py::arg("in_fp32"),
      Unlocked());
}

} // namespace cairn::python
