#pragma once

#include "pretrain/internal/build_model.h"
#include "pretrain/internal/probe.h"
#include "pretrain/probe/probe_input.h"
#include "pretrain/run/named_norms.h"

#include <ATen/core/Tensor.h>
#include <cairn/base/log.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/engine/engine.h>
#include <cairn/models/load_model.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// The model on all ranks, and the batches of a probe through it.
///
/// The loss of a step is the mean over all labels of its batch, and gradients
/// are that loss's, into whatever micro batches and over whatever ranks the
/// rows are divided.
class ProbeRun {
 public:
  struct Parts {
    const models::StoredModel& stored;
    const ProbeInput& input;
    const config::Config& config;
    bool train = false;
    bool logits = true;
  };
  ProbeRun(
      const Parts& parts,
      const distributed::World& world,
      const Logger& logger);
  ProbeRun(const ProbeRun&) = delete; // the engine calls back
  ProbeRun& operator=(const ProbeRun&) = delete;

  struct Result {
    ProbeStep step;
    std::vector<double> gradient_norms; ///< as NamedNorms has them
    /// "logits" and "next_sentence_logits" of all rows, if wanted; on rank 0.
    std::map<std::string, at::Tensor> scores;
  };
  Result step(std::int64_t number);
  /// The norms of the weights as they are now.
  std::vector<double> weight_norms();

 private:
  /// Rows of a pass on this rank.
  struct Share {
    std::int64_t step = 0;
    std::int64_t first = 0;
    /// The weight of this pass's mean over labels in the step's mean, times the
    /// number of passes: `asked` of `of`.
    std::int64_t asked = 1;
    std::int64_t of = 1;
  };
  Share share(std::int64_t step, std::int64_t pass) const;
  models::ModelInput batch(const Share& share) const;
  Engine make_engine(const distributed::World& world, const Logger& logger);
  pipeline::Loss stage_loss(const models::LayeredModel& layered);
  double run_batch(std::int64_t step);
  at::Tensor weight_of(const Share& share) const;
  void keep(const models::ModelOutput& output);
  at::Tensor gathered(
      const std::string& name,
      const std::vector<std::int64_t>& shape);

  Parts parts_;
  model::ModelDescription model_;
  distributed::ProcessMesh mesh_;
  config::BatchConfig batch_;
  NamedNorms norms_;
  Engine engine_;
  /// The scores of this step's passes, on the ranks that keep them for all.
  std::map<std::string, std::vector<at::Tensor>> kept_;
};

} // namespace cairn::pretrain
