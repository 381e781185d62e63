#include <cairn/base/error.h>
#include <cairn/optim/rule.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/sgd.h"

namespace cairn::optim {
namespace {

using config::OptimizerConfig;
using config::OptimizerParams;

/// An optimizer of the configuration: its defaults, and the function that makes
/// it.
struct Kind {
  std::string_view name;
  GroupValues values;
  std::unique_ptr<Rule> (*make)(const OptimizerParams&);
};

/// True when weight decay is decoupled, by DeepSpeed's rule: always for AdamW,
/// and for Adam unless it is told not to.
bool decoupled(std::string_view type, const OptimizerParams& params) {
  return type == "adamw" || params.adam_w_mode.value_or(true);
}

template <bool adamw>
std::unique_ptr<Rule> make_adam(const OptimizerParams& params) {
  return std::make_unique<Adam>(AdamOptions{
      .decoupled = adamw || decoupled("adam", params),
      .bias_correction = params.bias_correction.value_or(true)});
}

std::unique_ptr<Rule> make_sgd(const OptimizerParams& params) {
  const double momentum = params.momentum.value_or(0);
  const SgdOptions options{
      .momentum = momentum != 0,
      .nesterov = params.nesterov.value_or(false),
      .dampening = params.dampening.value_or(0)};
  if (options.nesterov && (!options.momentum || options.dampening != 0)) {
    throw ConfigError(
        {.what = "nesterov needs a momentum and no dampening",
         .where = "optimizer.params",
         .values = fmt::format(
             "momentum {}, dampening {}",
             momentum,
             options.dampening)});
  }
  return std::make_unique<Sgd>(options);
}

std::unique_ptr<Rule> make_adagrad(const OptimizerParams& params) {
  return std::make_unique<Adagrad>(AdagradOptions{
      .lr_decay = params.lr_decay.value_or(0),
      .initial_accumulator = params.initial_accumulator_value.value_or(0)});
}

std::unique_ptr<Rule> make_lion(const OptimizerParams&) {
  return std::make_unique<Lion>();
}

std::unique_ptr<Rule> make_lamb(const OptimizerParams& params) {
  LambOptions options;
  options.bias_correction = params.bias_correction.value_or(true);
  options.min_coefficient = params.min_coeff.value_or(options.min_coefficient);
  options.max_coefficient = params.max_coeff.value_or(options.max_coefficient);
  if (!(options.min_coefficient <= options.max_coefficient)) {
    throw ConfigError(
        {.what = "min_coeff is larger than max_coeff",
         .where = "optimizer.params",
         .values = fmt::format(
             "{} and {}",
             options.min_coefficient,
             options.max_coefficient)});
  }
  return std::make_unique<Lamb>(options);
}

std::unique_ptr<Rule> make_muon(const OptimizerParams& params) {
  MuonOptions options;
  options.nesterov = params.nesterov.value_or(true);
  options.method = params.ns_method.value_or("gram") == "gram"
      ? OrthogonalMethod::gram
      : OrthogonalMethod::standard;
  options.adam = {
      .lr = params.adam_lr.value_or(params.lr.value_or(3e-4)),
      .weight_decay = params.weight_decay.value_or(0),
      .betas = params.betas.value_or(std::array{0.9, 0.95}),
      .eps = params.eps.value_or(1e-10)};
  return std::make_unique<Muon>(options);
}

const std::array<Kind, 7>& kinds() {
  // The defaults are PyTorch's for SGD, DeepSpeed's for the others.
  static const std::array<Kind, 7> all{{
      {"adam", {}, make_adam<false>},
      {"adamw", {}, make_adam<true>},
      {"sgd", {}, make_sgd},
      {"adagrad", {.lr = 1e-2, .eps = 1e-10}, make_adagrad},
      {"lion", {}, make_lion},
      {"lamb", {}, make_lamb},
      {"muon", {.lr = 0.02, .momentum = 0.95}, make_muon},
  }};
  return all;
}

const Kind& kind_of(const OptimizerConfig& config) {
  if (!config.type) {
    throw ConfigError(
        {.what = "no optimizer is named",
         .where = "optimizer.type",
         .remedy = "name one there, or pass one to initialize"});
  }
  std::string name = *config.type;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  std::string known;
  for (const Kind& kind : kinds()) {
    if (kind.name == name) {
      return kind;
    }
    known += known.empty() ? "" : ", ";
    known += kind.name;
  }
  throw ConfigError(
      {.what = fmt::format("unknown optimizer \"{}\"", *config.type),
       .where = "optimizer.type",
       .remedy = fmt::format("one of {}", known)});
}

} // namespace

std::unique_ptr<Rule> make_rule(const OptimizerConfig& config) {
  const GroupValues values = default_values(config);
  for (const double beta : values.betas) {
    if (!(beta >= 0 && beta < 1)) {
      throw ConfigError(
          {.what = "betas must be at least 0 and below 1",
           .where = "optimizer.params.betas",
           .values = fmt::format("{}, {}", values.betas[0], values.betas[1])});
    }
  }
  return kind_of(config).make(config.params.value_or(OptimizerParams{}));
}

GroupValues default_values(const OptimizerConfig& config) {
  const Kind& kind = kind_of(config);
  const OptimizerParams params = config.params.value_or(OptimizerParams{});
  GroupValues values = kind.values;
  const bool adam = kind.name == "adam" || kind.name == "adamw";
  if (adam && params.torch_adam.value_or(false) &&
      decoupled(kind.name, params)) {
    values.weight_decay = 0.01; // the default of torch.optim.AdamW
  }
  const auto lr =
      kind.name == "muon" && params.muon_lr ? params.muon_lr : params.lr;
  GroupValuesPatch{
      .lr = lr,
      .weight_decay = params.weight_decay,
      .betas = params.betas,
      .eps = params.eps,
      .momentum = params.momentum}
      .apply_to(values);
  return values;
}

} // namespace cairn::optim
