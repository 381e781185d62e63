#include "engine.h"

#include "pipeline.h"
#include "python_module.h"
#include "python_optimizer.h"
#include "values.h"

#include <cairn/engine/gathered_parameters.h>
#include <cairn/engine/initialize.h>
#include <cairn/zero/init.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

/// The engine with its companions. None of its calls holds the interpreter's
/// lock while it computes or waits for other ranks.
struct PythonEngine {
  Engine engine;
  Optimizer optimizer;
  LearningRate schedule;
  std::optional<PythonPipeline> pipeline{};

  py::object forward(const py::args& arguments, const py::kwargs& names) {
    const auto call = std::make_shared<PythonCall>(
        PythonCall{HeldObject(arguments), HeldObject(names), {}});
    {
      const py::gil_scoped_release unlocked;
      engine(call);
    }
    return *call->result;
  }

  std::pair<std::optional<std::string>, py::dict> load(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag,
      const LoadOptions& options) {
    std::pair<std::optional<std::filesystem::path>, ClientState> loaded;
    {
      const py::gil_scoped_release unlocked;
      loaded = engine.load_checkpoint(folder, tag, options);
    }
    std::optional<std::string> path;
    if (loaded.first) {
      path = loaded.first->string();
    }
    return {path, from_client_state(loaded.second)};
  }

  at::Tensor train_batch(const py::object& next) {
    const auto batches = micro_batches_of(next);
    const py::gil_scoped_release unlocked;
    return mean_over_data(engine.train_batch(batches));
  }

  at::Tensor eval_batch(
      const py::object& next,
      const std::optional<std::int64_t>& micro_batches) {
    const auto batches = micro_batches_of(next);
    const py::gil_scoped_release unlocked;
    return mean_over_data(engine.eval_batch(batches, micro_batches));
  }

  /// The mean over the copies of the model, which have seen other samples.
  at::Tensor mean_over_data(const at::Tensor& loss) const {
    return pipeline->mesh.along(distributed::Axis::data)
        .all_reduce(
            loss.detach().to(at::kFloat).clone(),
            distributed::ReduceOp::mean)
        .wait();
  }

  void save(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag,
      const py::dict& client_state,
      const py::dict& of_rank,
      const std::optional<bool>& wait) {
    const ClientState values = to_client_state(client_state);
    const SaveOptions options{
        .wait = wait,
        .of_rank = to_client_state(of_rank)};
    const py::gil_scoped_release unlocked;
    engine.save_checkpoint(folder, tag, values, options);
  }
};

/// Values of a parameter group of torch's, as far as rules read them.
optim::GroupValuesPatch patch_of(const py::dict& group) {
  optim::GroupValuesPatch patch;
  const auto number = [&](const char* name) -> std::optional<double> {
    if (!group.contains(name)) {
      return std::nullopt;
    }
    // A learning rate may be a tensor.
    return py::cast<double>(
        py::module_::import("builtins").attr("float")(group[name]));
  };
  patch.lr = number("lr");
  patch.weight_decay = number("weight_decay");
  patch.eps = number("eps");
  patch.momentum = number("momentum");
  if (group.contains("betas")) {
    patch.betas = py::cast<std::array<double, 2>>(group["betas"]);
  }
  return patch;
}

std::vector<ParameterGroup> groups_of(const py::list& groups) {
  std::vector<ParameterGroup> result;
  for (const py::handle& each : groups) {
    const auto group = py::cast<py::dict>(each);
    result.push_back(
        {.parameters =
             py::cast<std::vector<at::Tensor>>(py::list(group["params"])),
         .values = patch_of(group)});
  }
  return result;
}

py::dict values_of(const optim::GroupValues& values) {
  py::dict result;
  result["lr"] = values.lr;
  result["weight_decay"] = values.weight_decay;
  result["betas"] = py::make_tuple(values.betas[0], values.betas[1]);
  result["eps"] = values.eps;
  result["momentum"] = values.momentum;
  return result;
}

/// Parameters of which this rank has a part, from tuples of their name, their
/// whole shape, and the place of the part in it.
std::vector<nn::ParameterSlice> slices_of(const py::list& slices) {
  std::vector<nn::ParameterSlice> result;
  for (const py::handle& each : slices) {
    const auto slice = py::cast<py::tuple>(each);
    result.push_back(
        {.name = py::cast<std::string>(slice[0]),
         .whole = py::cast<std::vector<std::int64_t>>(slice[1]),
         .offset = py::cast<std::vector<std::int64_t>>(slice[2])});
  }
  return result;
}

PythonEngine initialize_python(
    const py::object& net,
    const std::string& config,
    const py::list& groups,
    const py::object& client_optimizer,
    const std::vector<std::string>& keys_acted_on,
    const std::optional<distributed::World>& world,
    const std::optional<distributed::ProcessMesh>& mesh,
    const py::list& slices,
    const std::vector<std::string>& experts) {
  InitializeOptions options{
      .optimizer = client_optimizer.is_none()
          ? nullptr
          : python_optimizer(client_optimizer),
      .model_parameters = groups_of(groups),
      .mesh = mesh,
      .config = config,
      .keys_acted_on = keys_acted_on,
      .world = world};
  std::optional<PythonPipeline> pipeline;
  if (py::isinstance<PythonPipeline>(net)) {
    pipeline = py::cast<PythonPipeline>(net);
    options.model = pipeline->module;
    options.mesh = pipeline->mesh;
  } else {
    options.model = std::make_shared<PythonModule>(
        net,
        DividedParameters{.slices = slices_of(slices), .experts = experts});
  }
  const py::gil_scoped_release unlocked;
  auto [engine, optimizer, loader, schedule] = initialize(std::move(options));
  return {engine, optimizer, schedule, std::move(pipeline)};
}

/// A context manager over a C++ scope, which is made on entry and closed on
/// exit. After an exception in Python it closes as after one in C++.
template <typename Scope>
struct Context {
  std::function<std::unique_ptr<Scope>()> make;
  std::unique_ptr<Scope> scope{};

  void enter() {
    const py::gil_scoped_release unlocked;
    scope = make();
  }
  void exit(const py::object& type) {
    const bool failed = !type.is_none();
    const py::gil_scoped_release unlocked;
    if (!failed) {
      // Its end may throw, which a unique_ptr's destructor cannot.
      std::unique_ptr<Scope> ending = std::move(scope);
      Scope* last = ending.release();
      delete last;
      return;
    }
    try {
      struct Unwinding {};
      // The scope's destructor sees an exception under way, as in C++.
      struct Closer {
        std::unique_ptr<Scope> closing;
      } closer{std::move(scope)};
      throw Unwinding();
    } catch (...) {
      // Python's own exception goes on.
    }
  }
};

py::dict progress_of(const PythonEngine& self) {
  const EngineProgress progress = self.engine.progress();
  py::dict result;
  result["global_steps"] = progress.global_steps;
  result["micro_steps"] = progress.micro_steps;
  result["global_samples"] = progress.global_samples;
  result["skipped_steps"] = progress.skipped_steps;
  result["loss_scale"] = progress.loss_scale;
  return result;
}

py::dict settings_of(const PythonEngine& self) {
  const EngineSettings settings = self.engine.settings();
  py::dict result;
  result["train_batch_size"] = settings.train_batch_size;
  result["train_micro_batch_size_per_gpu"] =
      settings.train_micro_batch_size_per_gpu;
  result["gradient_accumulation_steps"] = settings.gradient_accumulation_steps;
  result["zero_optimization_stage"] = settings.zero_optimization_stage;
  result["fp16_enabled"] = settings.fp16_enabled;
  result["bfloat16_enabled"] = settings.bfloat16_enabled;
  return result;
}

py::dict memory_of(const PythonEngine& self) {
  const MemoryReport report = self.engine.memory_report();
  py::dict result;
  result["device"] = report.device;
  result["parameters"] = report.parameters;
  result["gathered"] = report.gathered;
  result["gradients"] = report.gradients;
  result["optimizer"] = report.optimizer;
  result["buffers"] = report.buffers;
  result["activations"] = report.activations;
  result["parameters_on_cpu"] = report.parameters_on_cpu;
  result["gradients_on_cpu"] = report.gradients_on_cpu;
  result["optimizer_on_cpu"] = report.optimizer_on_cpu;
  result["parameters_on_disk"] = report.parameters_on_disk;
  result["optimizer_on_disk"] = report.optimizer_on_disk;
  result["allocated"] = report.allocated;
  result["most_allocated"] = report.most_allocated;
  return result;
}

void add_scopes(py::module_& module) {
  using Gathered = Context<GatheredParameters>;
  py::class_<Gathered>(module, "GatheredParameters")
      .def(py::init([](const PythonEngine& engine,
                       std::vector<at::Tensor> parameters,
                       const std::optional<int>& modifier_rank) {
        return Gathered{[engine = engine.engine,
                         parameters = std::move(parameters),
                         modifier_rank] {
          return std::make_unique<GatheredParameters>(
              engine,
              parameters,
              GatheredParametersOptions{.modifier_rank = modifier_rank});
        }};
      }))
      .def("__enter__", &Gathered::enter)
      .def(
          "__exit__",
          [](Gathered& self,
             const py::object& type,
             const py::object&,
             const py::object&) { self.exit(type); });
  using Born = Context<zero::Init>;
  py::class_<Born>(module, "Init")
      .def(py::init([](const std::optional<at::ScalarType>& dtype,
                       bool enabled,
                       const std::optional<distributed::World>& world) {
        return Born{[dtype, enabled, world] {
          return std::make_unique<zero::Init>(zero::InitOptions{
              .world = world,
              .dtype = dtype,
              .enabled = enabled});
        }};
      }))
      .def("__enter__", &Born::enter)
      .def(
          "__exit__",
          [](Born& self,
             const py::object& type,
             const py::object&,
             const py::object&) { self.exit(type); });
  using Sync = Context<Engine::NoSync>;
  py::class_<Sync>(module, "NoSync")
      .def("__enter__", &Sync::enter)
      .def(
          "__exit__",
          [](Sync& self,
             const py::object& type,
             const py::object&,
             const py::object&) { self.exit(type); });
}

} // namespace

void add_engine(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  add_scopes(module);
  py::class_<PythonEngine>(module, "Engine")
      .def("forward", &PythonEngine::forward)
      .def(
          "backward",
          [](PythonEngine& self, const at::Tensor& loss) {
            self.engine.backward(loss);
          },
          Unlocked())
      .def(
          "step",
          [](PythonEngine& self) { self.engine.step(); },
          Unlocked())
      .def("train_batch", &PythonEngine::train_batch, py::arg("next"))
      .def(
          "eval_batch",
          &PythonEngine::eval_batch,
          py::arg("next"),
          py::arg("micro_batches"))
      .def(
          "is_gradient_accumulation_boundary",
          [](const PythonEngine& self) {
            return self.engine.is_gradient_accumulation_boundary();
          })
      .def(
          "no_sync",
          [](const PythonEngine& self) {
            return Context<Engine::NoSync>{[engine = self.engine]() mutable {
              // Built in place: a scope can be neither copied nor moved.
              return std::unique_ptr<Engine::NoSync>(
                  new Engine::NoSync(engine.no_sync()));
            }};
          })
      .def("train", [](PythonEngine& self, bool on) { self.engine.train(on); })
      .def("settings", &settings_of)
      .def("progress", &progress_of)
      .def("memory_report", &memory_of)
      .def(
          "describe_memory",
          [](const PythonEngine& self) {
            return self.engine.memory_report().describe();
          })
      .def_property_readonly(
          "rank",
          [](const PythonEngine& self) { return self.engine.rank(); })
      .def_property_readonly(
          "device",
          [](const PythonEngine& self) { return self.engine.device().str(); })
      .def(
          "set_train_batch_size",
          [](PythonEngine& self, std::int64_t samples) {
            self.engine.set_train_batch_size(samples);
          })
      .def(
          "gradient_norm",
          [](const PythonEngine& self) { return self.engine.gradient_norm(); },
          Unlocked())
      .def(
          "full_parameter",
          [](PythonEngine& self, const std::string& name) {
            return self.engine.full_parameter(name);
          },
          Unlocked())
      .def(
          "save_checkpoint",
          &PythonEngine::save,
          py::arg("folder"),
          py::arg("tag"),
          py::arg("client_state"),
          py::arg("of_rank"),
          py::arg("wait"))
      .def(
          "finish_checkpoint",
          [](PythonEngine& self) { self.engine.finish_checkpoint(); },
          Unlocked())
      .def(
          "load_checkpoint",
          [](PythonEngine& self,
             const std::filesystem::path& folder,
             const std::optional<std::string>& tag,
             bool optimizer,
             bool schedule,
             bool all) {
            LoadOptions options =
                all ? LoadOptions{} : LoadOptions::weights_only();
            options.optimizer &= optimizer;
            options.schedule &= schedule;
            return self.load(folder, tag, options);
          },
          py::arg("folder"),
          py::arg("tag"),
          py::arg("optimizer"),
          py::arg("schedule"),
          py::arg("all"))
      .def(
          "learning_rates",
          [](const PythonEngine& self) {
            return self.engine.progress().learning_rates;
          })
      .def(
          "group_values",
          [](PythonEngine& self) {
            py::list result;
            for (const auto& values : self.optimizer.param_groups()) {
              result.append(values_of(values));
            }
            return result;
          })
      .def(
          "set_group_values",
          [](PythonEngine& self, std::size_t group, const py::dict& values) {
            patch_of(values).apply_to(self.optimizer.param_groups().at(group));
          })
      .def_property_readonly(
          "optimizer_name",
          [](const PythonEngine& self) { return self.optimizer.name(); })
      .def_property_readonly("loss_scale", [](const PythonEngine& self) {
        return self.optimizer.cur_scale();
      });
  module.def(
      "initialize",
      &initialize_python,
      py::arg("model"),
      py::arg("config"),
      py::arg("groups"),
      py::arg("client_optimizer"),
      py::arg("keys_acted_on"),
      py::arg("world"),
      py::arg("mesh"),
      py::arg("slices"),
      py::arg("experts"));
}

} // namespace cairn::python
