#include "corpus/internal/clean_corpus.h"

#include <cairn/base/error.h>

#include "base/internal/thread_pool.h"
#include "corpus/clean/document_cleaner.h"
#include "corpus/clean/document_line.h"
#include "corpus/clean/min_hash.h"
#include "corpus/clean/near_duplicates.h"
#include "corpus/clean/text_digest.h"
#include "corpus/internal/output_file.h"
#include "corpus/output/ordered_work.h"
#include "corpus/output/spool_file.h"
#include "data/internal/line_reader.h"

#include <fmt/core.h>

#include <optional>
#include <unordered_set>
#include <utility>

namespace cairn::corpus {
namespace {

constexpr std::size_t block_size = 1 << 20;

/// Reads the inputs one after another, in blocks of lines.
class Blocks {
 public:
  explicit Blocks(const CleanOptions& options) : options_(options) {}

  std::optional<data::LineBlock> next() {
    data::LineBlock block;
    while (true) {
      if (!reader_) {
        if (input_ == options_.inputs.size()) {
          return std::nullopt;
        }
        reader_.emplace(
            options_.inputs[input_++],
            data::BlockReader::Options{.block_size = block_size});
      }
      if (reader_->next(block)) {
        if (options_.on_progress) {
          options_.on_progress(block.stored);
        }
        return block;
      }
      reader_.reset();
    }
  }

 private:
  const CleanOptions& options_;
  std::size_t input_ = 0;
  std::optional<data::BlockReader> reader_;
};

/// Makes the decisions that depend on the documents before, in their order.
class Sieve {
 public:
  explicit Sieve(const CleanOptions& options)
      : options_(options), output_(options.output), near_(options.near) {
    if (options.deduplication == Deduplication::near) {
      spool_.emplace(output_.folder());
    }
  }

  void take(const CleanedDocument& document) {
    add(report_.read, document.bytes);
    report_.fixed += document.fixed ? 1 : 0;
    if (const auto reason = verdict(document)) {
      add(report_.of(*reason), document.bytes);
      constexpr std::size_t most_problems = 5;
      if (*reason == CleanReason::broken_line &&
          report_.broken_lines.size() < most_problems) {
        report_.broken_lines.push_back(document.problem);
      }
      return;
    }
    if (spool_) {
      kept_.push_back({spool_->size(), document.line.size(), document.bytes});
      spool_->append(document.line);
      near_.add(document.hashes);
    } else {
      add(report_.kept, document.bytes);
      output_.write(document.line);
    }
  }

  CleanReport finish(ThreadPool& pool) {
    if (spool_) {
      write_all_but_near_duplicates(pool);
    }
    output_.commit();
    return std::move(report_);
  }

 private:
  struct Kept {
    std::uint64_t offset;
    std::size_t size;
    std::size_t bytes; ///< of text
  };

  static void add(CleanCount& count, std::size_t bytes) {
    ++count.documents;
    count.bytes += bytes;
  }

  std::optional<CleanReason> verdict(const CleanedDocument& document) {
    if (document.url && !urls_.insert(*document.url).second) {
      return CleanReason::duplicate_url;
    }
    if (document.reason) {
      return document.reason;
    }
    if (options_.deduplication != Deduplication::none &&
        !texts_.insert(document.text).second) {
      return CleanReason::exact_duplicate;
    }
    return std::nullopt;
  }

  void write_all_but_near_duplicates(ThreadPool& pool) {
    spool_->flush();
    const auto shingles = [this](std::size_t index) {
      std::string line = spool_->read(kept_[index].offset, kept_[index].size);
      const std::size_t size = line.size() - 1; // without the line end
      line.resize(line.size() + data::LineBlock::padding);
      DocumentLine parser(options_.text_key, options_.url_key);
      parser.parse(std::string_view(line).substr(0, size));
      return shingles_of(parser.text());
    };
    const auto found = near_.find(pool, shingles);
    report_.compared = found.compared;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (found.duplicate[i]) {
        add(report_.of(CleanReason::near_duplicate), kept_[i].bytes);
      } else {
        add(report_.kept, kept_[i].bytes);
        output_.write(spool_->read(kept_[i].offset, kept_[i].size));
      }
    }
  }

  const CleanOptions& options_;
  OutputFile output_;
  std::optional<SpoolFile> spool_; ///< used to find near duplicates
  std::vector<Kept> kept_;
  NearDuplicates near_;
  std::unordered_set<TextDigest, TextDigest::Hash> urls_;
  std::unordered_set<TextDigest, TextDigest::Hash> texts_;
  CleanReport report_;
};

} // namespace

std::string_view name_of(CleanReason reason) {
  static constexpr std::array<std::string_view, clean_reasons> names{
      "broken line",
      "blacklisted domain",
      "blacklisted extension",
      "URL of 8 characters or fewer",
      "malformed URL",
      "duplicate URL",
      "other language",
      "too short",
      "exact duplicate",
      "near duplicate"};
  return names[static_cast<std::size_t>(reason)];
}

CleanReport clean_corpus(const CleanOptions& options) {
  const auto& near = options.near;
  if (near.bands == 0 || near.values < near.bands ||
      near.values % near.bands != 0) {
    throw ConfigError(
        {.what = "the number of MinHash values is no multiple of that of bands",
         .where = "--num-seeds",
         .values = fmt::format("{} and {}", near.values, near.bands)});
  }
  const DocumentCleaner cleaner(options);
  Blocks blocks(options);
  Sieve sieve(options);
  ThreadPool pool(options.workers);
  ordered_work(
      pool,
      (options.workers * 2 + 1) * block_size,
      [&] { return blocks.next(); },
      [](const data::LineBlock& block) { return block.buffer.capacity(); },
      cleaner,
      [&](const std::vector<CleanedDocument>& documents) {
        for (const CleanedDocument& document : documents) {
          sieve.take(document);
        }
        return true;
      });
  return sieve.finish(pool);
}

} // namespace cairn::corpus
