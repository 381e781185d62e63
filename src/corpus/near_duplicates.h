#pragma once

#include <cairn/base/thread_pool.h>
#include <cairn/corpus/clean_corpus.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cairn::corpus {

/// Finds documents that are nearly the same, from band hashes that are all in
/// memory and texts that are not.
class NearDuplicates {
 public:
  explicit NearDuplicates(NearDuplicateOptions options);

  /// The next document: its band_hashes(), or nothing.
  void add(std::span<const std::uint64_t> hashes);

  /// The pieces of a document, asked for when it must be compared.
  using Shingles = std::function<std::vector<std::uint64_t>(std::size_t)>;

  struct Result {
    std::vector<bool> duplicate; ///< of an earlier document
    std::uint64_t compared = 0;
  };
  Result find(ThreadPool& pool, const Shingles& shingles) const;

 private:
  NearDuplicateOptions options_;
  std::size_t documents_ = 0;
  std::vector<std::uint64_t> hashes_; ///< bands of each document in turn
};

} // namespace cairn::corpus
