#include "pretrain/internal/probe.h"

#include "pretrain/probe/probe_config.h"
#include "pretrain/probe/probe_hidden.h"
#include "pretrain/probe/probe_input.h"
#include "pretrain/probe/probe_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/model/parameters.h>
#include <cairn/models/load_model.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::pretrain {

namespace {

namespace fs = std::filesystem;
using model::ModelDescription;
using Results = std::map<std::string, at::Tensor>;

/// Refuses to train a model without a loss.
void require_heads(const ModelDescription& model, const ProbeOptions& options) {
  if (options.train && has_hidden_states_alone(model)) {
    throw CheckpointError(
        {.what = "a model without a head that predicts words has no loss",
         .where = options.load.string(),
         .remedy = "leave out --train to get its hidden states"});
  }
}

void require_writable(const fs::path& output, const fs::path& input) {
  std::error_code error;
  if (fs::is_directory(output, error)) {
    throw DataError(
        {.what = "the output is a folder",
         .where = output.string(),
         .remedy = "give the name of a file"});
  }
  if (fs::equivalent(output, input, error)) {
    throw DataError(
        {.what = "the output would replace the input",
         .where = output.string()});
  }
  const AtomicFile trial(output);
}

/// The name of the logits in Hugging Face's models.
std::string logits_name(const ModelDescription& model) {
  return model.next_sentence_head ? "prediction_logits" : "logits";
}

constexpr const char* sentence_name = "seq_relationship_logits";

ProbeDifference difference(
    const std::string& name,
    const at::Tensor& ours,
    const at::Tensor& theirs) {
  ProbeDifference result{.name = name};
  result.largest = (ours.to(at::kDouble) - theirs).abs().max().item<double>();
  const double size = theirs.abs().max().item<double>();
  result.relative = size > 0 ? result.largest / size : 0;
  return result;
}

/// Numbers and tensors of the steps, put together under their names.
class ResultTable {
 public:
  explicit ResultTable(bool train) : train_(train) {}

  void add(const std::string& name, const at::Tensor& value) {
    columns_[name].push_back(value);
  }
  void add(const std::string& name, double value) {
    add(name, at::full({}, value, at::kDouble));
  }
  Results take() const {
    Results results;
    for (const auto& [name, values] : columns_) {
      results[name] = train_ ? at::stack(values) : values.front();
    }
    return results;
  }

 private:
  bool train_; ///< a dimension for steps in front
  std::map<std::string, std::vector<at::Tensor>> columns_;
};

void add_step(
    ResultTable& table,
    const ProbeRun::Result& result,
    const ModelDescription& model,
    const std::vector<std::string>& names,
    bool train) {
  table.add("loss", result.step.loss);
  table.add(train ? "grad_norm" : "total_grad_norm", result.step.gradient_norm);
  for (std::size_t i = 0; i < names.size(); ++i) {
    table.add("grad_norms." + names[i], result.gradient_norms[i]);
  }
  for (const auto& [name, scores] : result.scores) {
    if (scores.defined()) {
      table.add(name == "logits" ? logits_name(model) : sentence_name, scores);
    }
  }
  if (train) {
    const std::vector<double>& rates = result.step.learning_rates;
    const bool one = std::ranges::all_of(rates, [&](double rate) {
      return rate == rates.front();
    });
    table.add(
        "lr",
        one ? at::full({}, rates.front(), at::kDouble)
            : at::tensor(rates, at::kDouble));
  }
}

} // namespace

struct Probe::Plan {
  explicit Plan(ProbeOptions given)
      : options(std::move(given)),
        stored(models::open_model(options.load, options.step)),
        input(
            options.input,
            (require_heads(stored.description, options), stored.description),
            options.train ? ProbeInput::Steps::leading_dimension
                          : ProbeInput::Steps::one),
        config(probe_config(
            options.config,
            stored.description,
            input,
            options.train)),
        names(stored.description),
        expected(input.expected(shapes())) {
    if (has_hidden_states_alone(stored.description)) {
      check_hidden_states(config);
    }
    if (options.writes) {
      require_writable(options.output, options.input);
    }
  }

  std::map<std::string, std::vector<std::int64_t>> shapes() const;
  /// Compares the results with the input's, and writes them; on rank 0.
  void finish(ProbeReport& report, Results results) const;

  ProbeOptions options;
  models::StoredModel stored;
  ProbeInput input;
  config::Config config;
  NamedNorms names;
  Results expected;
};

/// The shape of every result that this probe can give.
std::map<std::string, std::vector<std::int64_t>> Probe::Plan::shapes() const {
  const ModelDescription& model = stored.description;
  if (has_hidden_states_alone(model)) {
    std::map<std::string, std::vector<std::int64_t>> shapes{
        {"last_hidden_state", {input.rows(), input.length(), model.hidden}},
        {"num_parameters", {}}};
    if (model.pooler) {
      shapes["pooler_output"] = {input.rows(), model.hidden};
    }
    return shapes;
  }
  std::vector<std::int64_t> number; // of one result
  std::vector<std::int64_t> rows{input.rows()};
  if (options.train) {
    number = {input.steps()};
    rows.insert(rows.begin(), input.steps());
  }
  auto logits = rows;
  logits.insert(logits.end(), {input.label_length(), model.vocabulary});
  std::map<std::string, std::vector<std::int64_t>> shapes{
      {logits_name(model), logits},
      {"loss", number}};
  if (model.next_sentence_head) {
    rows.push_back(2);
    shapes[sentence_name] = rows;
  }
  for (const std::string& name : names.names()) {
    shapes["grad_norms." + name] = number;
  }
  if (!options.train) {
    shapes["total_grad_norm"] = {};
    shapes["num_parameters"] = {};
    return shapes;
  }
  shapes["lr"] = number;
  shapes["grad_norm"] = number;
  for (const std::string& name : names.names()) {
    shapes["final_param_norms." + name] = {};
  }
  return shapes;
}

void Probe::Plan::finish(ProbeReport& report, Results results) const {
  if (!options.train) {
    results["num_parameters"] = at::full({}, report.parameters, at::kLong);
  }
  for (const auto& [name, theirs] : expected) {
    const auto ours = results.find(name);
    if (ours != results.end() && ours->second.sizes() == theirs.sizes()) {
      report.differences.push_back(difference(name, ours->second, theirs));
    }
  }
  checkpoints::write_safetensors(
      options.output,
      results,
      {{"format", "pt"},
       {"names", names.names_are_hugging_faces() ? "huggingface" : "cairn"}});
  report.tensors = results.size();
}

Probe::Probe(ProbeOptions options)
    : plan_(std::make_unique<const Plan>(std::move(options))) {}
Probe::~Probe() = default;
Probe::Probe(Probe&&) noexcept = default;

const config::Config& Probe::config() const {
  return plan_->config;
}

ProbeReport Probe::run(const distributed::World& world, const Logger& logger)
    const {
  const Plan& plan = *plan_;
  const ModelDescription& model = plan.stored.description;
  const bool train = plan.options.train;
  ProbeReport report{
      .model = std::string(model::name_of(model.family)),
      .format = std::string(checkpoints::name_of(plan.stored.format)),
      .parameters = model::count_parameters(model).all};
  if (has_hidden_states_alone(model)) {
    Results results =
        hidden_states(plan.stored, plan.input, plan.config, world, logger);
    if (world.rank() == 0) {
      plan.finish(report, std::move(results));
    }
    return report;
  }
  ProbeRun run(
      {.stored = plan.stored,
       .input = plan.input,
       .config = plan.config,
       .train = train,
       .logits = plan.options.logits},
      world,
      logger);
  ResultTable table(train);
  for (std::int64_t step = 0; step < plan.input.steps(); ++step) {
    const ProbeRun::Result result = run.step(step);
    report.steps.push_back(result.step);
    add_step(table, result, model, plan.names.names(), train);
  }
  std::vector<double> weights;
  if (train) {
    weights = run.weight_norms();
  }
  if (world.rank() != 0) {
    return report;
  }
  Results results = table.take();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    results["final_param_norms." + plan.names.names()[i]] =
        at::full({}, weights[i], at::kDouble);
  }
  plan.finish(report, std::move(results));
  return report;
}

} // namespace cairn::pretrain
