#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/models/load_model.h>
#include <cairn/text/tokenizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cairn::evaluate {

/// True for tasks that a model does as it is: WIKITEXT103, LAMBADA, HELLASWAG
/// and PPL.
bool is_zero_shot(std::string_view task);

struct EvaluatedModel {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  models::StoredModel stored;
};

struct ZeroShotReport {
  /// The results in one line, as Megatron prints them.
  std::string line;
  std::string json; ///< the results and how they came about
};

/// Evaluation of a GPT or Llama without training it, as `cairn evaluate` does
/// it.
class ZeroShot {
 public:
  /// Reads the task's data and checks everything that needs no other rank.
  /// Throws ConfigError, DataError.
  ZeroShot(
      const config::Config& config,
      EvaluatedModel model,
      const Logger& logger);
  ~ZeroShot();
  ZeroShot(ZeroShot&&) noexcept;

  /// Called before each batch of this rank with its number, counted from 0.
  using OnIteration = std::function<void(std::int64_t iteration)>;
  /// Runs on every rank, which all get the same results. Rank 0 shows a bar.
  ZeroShotReport run(
      const distributed::World& world,
      const OnIteration& on_iteration = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace cairn::evaluate
