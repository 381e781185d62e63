#pragma once

#include "evaluate/row_scorer.h"
#include "evaluate/text_row.h"

#include <cairn/distributed/init_distributed.h>
#include <cairn/generate/token_scorer.h>
#include <cairn/models/load_model.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cairn::evaluate {

struct ConvertedRowScorerOptions {
  generate::WeightType weights = generate::WeightType::fp32;
  at::ScalarType dtype = at::kFloat; ///< of the other parameters
  std::int64_t rows = 8;             ///< that a rank scores before it reports
};

/// Scores rows of tokens on the CPU with weights in other numbers, by the
/// decoder that writes texts with them. Every rank has the whole model and a
/// share of the rows. A row's score does not depend on who computed it, bit for
/// bit.
class ConvertedRowScorer {
 public:
  ConvertedRowScorer(
      const models::StoredModel& stored,
      const distributed::World& world,
      const ConvertedRowScorerOptions& options);

  /// Scores rows as RowScorer::score() does.
  std::vector<RowScore> score(
      std::span<const TextRow> rows,
      const RowScorer::Watch& watch);

 private:
  distributed::ProcessGroup world_;
  at::Device device_; ///< of what the ranks exchange
  std::shared_ptr<models::Transformer> model_;
  ConvertedRowScorerOptions options_;
};

} // namespace cairn::evaluate
