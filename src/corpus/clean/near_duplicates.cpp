#include "corpus/clean/near_duplicates.h"

#include <cairn/base/error.h>

#include "corpus/clean/min_hash.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace cairn::corpus {
namespace {

using Document = std::uint32_t;
using Bucket = std::span<const std::pair<std::uint64_t, Document>>;

/// Groups of documents that belong together, each represented by its first.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), Document{0});
  }
  Document first_of(Document document) const {
    while (parent_[document] != document) {
      document = parent_[document];
    }
    return document;
  }
  void join(Document a, Document b) {
    a = first_of(a);
    b = first_of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  /// Makes every document point directly to the first of its group.
  void flatten() {
    for (Document i = 0; i < parent_.size(); ++i) {
      parent_[i] = parent_[parent_[i]]; // earlier ones are flat already
    }
  }

 private:
  std::vector<Document> parent_;
};

struct Comparison {
  std::vector<std::pair<Document, Document>> alike;
  std::uint64_t count = 0;
};

/// Compares the texts of one bucket with each other.
Comparison compare(
    Bucket bucket,
    const NearDuplicateOptions& options,
    const Groups& groups,
    const NearDuplicates::Shingles& shingles) {
  using Measure = NearDuplicateOptions::Measure;
  const Similarity measure = options.measure == Measure::min ? Similarity::min
      : options.measure == Measure::max                      ? Similarity::max
                                        : Similarity::union_;
  // A document that is more than half like another one is not compared again
  // in a later round. The recipe's first step does the same.
  const double settled = std::min(0.5, options.threshold);
  Comparison result;
  std::vector<Document> left;
  for (const auto& [hash, document] : bucket) {
    left.push_back(document);
  }
  for (int round = 0; left.size() > 1 && round != options.rounds; ++round) {
    const Document main = left.front();
    std::vector<std::uint64_t> main_shingles;
    std::vector<Document> unlike;
    for (const Document other : std::span(left).subspan(1)) {
      if (groups.first_of(main) == groups.first_of(other)) {
        continue; // known from an earlier band
      }
      if (main_shingles.empty()) {
        main_shingles = shingles(main);
      }
      const double alike = similarity(main_shingles, shingles(other), measure);
      ++result.count;
      if (alike >= options.threshold) {
        result.alike.emplace_back(main, other);
      }
      if (alike <= settled) {
        unlike.push_back(other);
      }
    }
    left = std::move(unlike);
  }
  return result;
}

} // namespace

NearDuplicates::NearDuplicates(NearDuplicateOptions options)
    : options_(options) {}

void NearDuplicates::add(std::span<const std::uint64_t> hashes) {
  if (documents_ == std::numeric_limits<Document>::max()) {
    throw DataError(
        {.what = "more than 4 billion documents cannot be compared",
         .remedy = "clean them in parts"});
  }
  ++documents_;
  if (hashes.empty()) { // no text: similar to nothing
    for (std::size_t band = 0; band < options_.bands; ++band) {
      hashes_.push_back(~std::uint64_t{documents_});
    }
  } else {
    hashes_.insert(hashes_.end(), hashes.begin(), hashes.end());
  }
}

NearDuplicates::Result NearDuplicates::find(
    ThreadPool& pool,
    const Shingles& shingles) const {
  Result result;
  Groups groups(documents_);
  std::vector<std::pair<std::uint64_t, Document>> entries(documents_);
  for (std::size_t band = 0; band < options_.bands; ++band) {
    for (std::size_t i = 0; i < documents_; ++i) {
      entries[i] = {
          hashes_[i * options_.bands + band],
          static_cast<Document>(i)};
    }
    std::sort(entries.begin(), entries.end());
    std::vector<Bucket> buckets;
    for (std::size_t begin = 0; begin < entries.size();) {
      std::size_t end = begin + 1;
      while (end < entries.size() &&
             entries[end].first == entries[begin].first) {
        ++end;
      }
      if (end - begin > 1) {
        buckets.push_back(Bucket(entries).subspan(begin, end - begin));
      }
      begin = end;
    }
    // Groups change only between bands, so threads may read them.
    std::vector<Comparison> comparisons(buckets.size());
    pool.parallel_for(
        buckets.size(),
        8,
        [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) {
            comparisons[i] = compare(buckets[i], options_, groups, shingles);
          }
        });
    for (const Comparison& each : comparisons) {
      result.compared += each.count;
      for (const auto& [a, b] : each.alike) {
        groups.join(a, b);
      }
    }
    groups.flatten();
  }
  result.duplicate.resize(documents_);
  for (std::size_t i = 0; i < documents_; ++i) {
    result.duplicate[i] = groups.first_of(static_cast<Document>(i)) != i;
  }
  return result;
}

} // namespace cairn::corpus
