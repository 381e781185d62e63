#pragma once

#include "evaluate/model_text.h"
#include "evaluate/text_row.h"

#include <cairn/base/log.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::evaluate {

struct TaskResult {
  /// The results in one line, as Megatron prints them:
  /// " validation results on WIKITEXT103 | avg loss: … |".
  std::string line;
  nlohmann::ordered_json values; ///< the same by their names, unrounded
};

/// A task that a model does as it is: its rows of tokens, and what their scores
/// mean.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::span<const TextRow> rows() const = 0;
  /// True if it matters which tokens the model finds likeliest.
  virtual bool asks_for_likeliest() const { return false; }
  /// The result, from the scores of rows() in their order.
  virtual TaskResult result(std::span<const RowScore> scores) const = 0;
};

/// Rows with tokens of their own, no longer than a model reads.
class OwnedRows {
 public:
  /// `longest`: tokens that the model reads at most.
  explicit OwnedRows(std::int64_t longest) : longest_(longest) {}

  /// Adds a row. Of a longer one the last tokens stay.
  void add(TokenPair row);
  std::span<const TextRow> rows() const { return rows_; }
  /// Says how many rows were cut.
  void log_cuts(const Logger& logger) const;
  std::int64_t cut() const { return cut_; }

 private:
  std::int64_t longest_;
  std::vector<std::unique_ptr<const TokenIds>> tokens_;
  std::vector<TextRow> rows_;
  std::int64_t cut_ = 0;
};

/// Perplexity of a WikiText file, or of the Penn Treebank's if the name of the
/// file has "ptb" in it, as Megatron's zero-shot evaluation computes it.
struct WikiTextOptions {
  std::filesystem::path file;
  std::int64_t length = 1024; ///< tokens that the model reads at a time
  std::int64_t step = 32;     ///< see WindowOptions::step
};
std::unique_ptr<Task> wikitext_task(
    const WikiTextOptions& options,
    ModelText& text,
    const Logger& logger);

/// Accuracy at the last word of each text, or at its last token.
struct LambadaOptions {
  std::filesystem::path file;
  std::int64_t length = 1024;
  bool whole_word = false;
};
std::unique_ptr<Task> lambada_task(
    const LambadaOptions& options,
    ModelText& text,
    const Logger& logger);

/// Accuracy at the choice between endings.
struct HellaSwagOptions {
  std::filesystem::path file;
  std::int64_t length = 1024;
  bool plain = false;
};
std::unique_ptr<Task> hellaswag_task(
    const HellaSwagOptions& options,
    ModelText& text,
    const Logger& logger);

/// Perplexity of any text: a file, the texts under a key in lines of JSON, or
/// the documents of a preprocessed corpus.
struct PerplexityOptions {
  std::filesystem::path file;   ///< empty: the corpus
  std::filesystem::path corpus; ///< prefix of .bin and .idx
  std::string key = "text";
  std::int64_t length = 1024;
  std::int64_t step = 1024;
  std::int64_t vocabulary = 0; ///< of the model: a corpus has no larger ids
};
std::unique_ptr<Task> perplexity_task(
    const PerplexityOptions& options,
    ModelText& text,
    const Logger& logger);

} // namespace cairn::evaluate
