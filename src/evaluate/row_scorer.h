#pragma once

#include "evaluate/row_batches.h"
#include "evaluate/text_row.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/models/load_model.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace cairn::evaluate {

struct RowScorerOptions {
  std::int64_t rows = 8; ///< of a micro batch
  /// Tokens that the model reads of a row at most.
  std::int64_t longest = 1024;
  /// True: RowScore::all_likeliest is wanted.
  bool likeliest = false;
};

/// Scores rows of tokens with a GPT or Llama that the ranks of the job share
/// as the flags say: by layers, by stages, and by rows. A row's score does not
/// depend on who computed it, up to rounding.
class RowScorer {
 public:
  /// Builds this rank's part of the model in the precision of `config`, and
  /// loads it. Throws ConfigError for ranks that cannot share the model.
  RowScorer(
      const models::StoredModel& stored,
      const config::Config& config,
      const distributed::World& world,
      const RowScorerOptions& options);
  ~RowScorer();
  RowScorer(RowScorer&&) noexcept;

  struct Advance {
    std::int64_t micro_batches = 0; ///< of this rank
    std::int64_t rows = 0;          ///< of all ranks
    std::int64_t tokens = 0;        ///< read and scored in them
  };
  /// Called before rows are run (`next`: what will be run) and when they are
  /// done.
  struct Watch {
    std::function<void(const Advance& next)> begins{};
    std::function<void(const Advance& done)> done{};
  };

  /// The scores of all rows, in their order, on every rank. All ranks call it
  /// with the same rows.
  std::vector<RowScore> score(
      std::span<const TextRow> rows,
      const Watch& watch);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace cairn::evaluate
