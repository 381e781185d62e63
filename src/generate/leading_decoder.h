#pragma once

#include "generate/cached_decoder.h"
#include "generate/decoder.h"
#include "generate/shared_core.h"

#include <memory>
#include <vector>

namespace cairn::generate {

/// Rank 0's decoder of a model that ranks share: its own part, and orders for
/// the others, which repeat every change of what it remembers.
class SharedModel::Leading : public Decoder {
 public:
  Leading(std::shared_ptr<Core> core, const TextBatchOptions& options);
  ~Leading() override;
  Leading(const Leading&) = delete;
  Leading& operator=(const Leading&) = delete;

  std::int64_t longest() const override { return own_.longest(); }
  bool reserve(std::size_t place, std::int64_t tokens) override;
  void release(std::size_t place) override;
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens) override;
  std::span<const float> compute(std::span<const Piece> pieces) override;

 private:
  std::shared_ptr<Core> core_;
  std::int64_t number_;
  CachedDecoder own_;
  std::vector<CacheChange> changes_; ///< that the others do not know yet
};

} // namespace cairn::generate
