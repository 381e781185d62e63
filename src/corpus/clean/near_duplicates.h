#pragma once

#include "base/internal/thread_pool.h"
#include "corpus/internal/clean_corpus.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cairn::corpus {

/// Finds documents that are nearly the same. All band hashes are in memory; the
/// texts are not.
class NearDuplicates {
 public:
  explicit NearDuplicates(NearDuplicateOptions options);

  /// Adds the next document by its band_hashes(), which may be empty.
  void add(std::span<const std::uint64_t> hashes);

  /// Returns the pieces of a document; called when it must be compared.
  using Shingles = std::function<std::vector<std::uint64_t>(std::size_t)>;

  struct Result {
    std::vector<bool> duplicate; ///< true: of an earlier document
    std::uint64_t compared = 0;
  };
  Result find(ThreadPool& pool, const Shingles& shingles) const;

 private:
  NearDuplicateOptions options_;
  std::size_t documents_ = 0;
  std::vector<std::uint64_t> hashes_; ///< `bands` values per document
};

} // namespace cairn::corpus
