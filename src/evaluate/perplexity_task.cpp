#include "evaluate/result_text.h"
#include "evaluate/task.h"
#include "evaluate/task_file.h"
#include "evaluate/text_windows.h"

#include "text/internal/python_text.h"

#include <cairn/base/error.h>
#include <cairn/data/indexed_dataset.h>
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <numbers>
#include <optional>
#include <utility>

namespace cairn::evaluate {
namespace {

/// Sizes of the texts; tokens that were made earlier have none.
struct TextSizes {
  std::int64_t bytes = 0;
  std::int64_t words = 0;
};

struct Documents {
  std::vector<TokenIds> tokens;
  std::optional<TextSizes> sizes;
};

class PerplexityTask : public Task {
 public:
  PerplexityTask(Documents documents, const WindowOptions& windows)
      : documents_(std::move(documents)) {
    for (const TokenIds& tokens : documents_.tokens) {
      const auto rows = text_windows(tokens, windows);
      rows_.insert(rows_.end(), rows.begin(), rows.end());
    }
    for (const TextRow& row : rows_) {
      scored_ += row.scored;
    }
  }

  std::span<const TextRow> rows() const override { return rows_; }

  TaskResult result(std::span<const RowScore> scores) const override {
    double sum = 0;
    for (const RowScore& score : scores) {
      sum += score.loss;
    }
    const double loss = sum / static_cast<double>(scored_);
    const double ppl = std::exp(loss);
    TaskResult result{
        .line = result_heading("PPL") +
            fmt::format(
                    "avg loss: {} | ppl: {} |",
                    result_number(loss),
                    result_number(ppl))};
    result.values = {{"avg_loss", loss}, {"ppl", ppl}};
    if (documents_.sizes) {
      const auto& [bytes, words] = *documents_.sizes;
      const double bits = sum / std::numbers::ln2 / static_cast<double>(bytes);
      const double by_word = std::exp(sum / static_cast<double>(words));
      result.line += fmt::format(
          " bits per byte: {} | ppl per word: {} |",
          result_number(bits),
          result_number(by_word));
      result.values["bits_per_byte"] = bits;
      result.values["ppl_per_word"] = by_word;
      result.values["bytes"] = bytes;
      result.values["words"] = words;
    }
    result.values["scored_tokens"] = scored_;
    result.values["documents"] = documents_.tokens.size();
    return result;
  }

 private:
  Documents documents_;
  std::vector<TextRow> rows_;
  std::int64_t scored_ = 0;
};

/// A document behind the token that texts begin after, so that its first token
/// is scored as well.
TokenIds begun(TokenIds tokens, const ModelText& text) {
  const auto first = text.before_text();
  if (first && (tokens.empty() || tokens.front() != *first)) {
    tokens.insert(tokens.begin(), *first);
  }
  return tokens;
}

void add_text(
    Documents& documents,
    std::string_view document,
    ModelText& text) {
  TokenIds tokens = begun(text.encode(document), text);
  if (tokens.size() < 2) {
    return; // nothing of it can be scored
  }
  documents.tokens.push_back(std::move(tokens));
  documents.sizes->bytes += static_cast<std::int64_t>(document.size());
  text::python::for_each_word(document, [&](std::string_view) {
    ++documents.sizes->words;
  });
}

Documents read_file_of(const PerplexityOptions& options, ModelText& text) {
  Documents documents{.sizes = TextSizes{}};
  if (is_json_file(options.file)) {
    for_each_object(
        options.file,
        [&](const nlohmann::json& object, const std::string& where) {
          add_text(documents, text_under(object, options.key, where), text);
        });
  } else {
    add_text(documents, read_text(options.file), text);
  }
  return documents;
}

Documents read_corpus(const PerplexityOptions& options, ModelText& text) {
  const data::IndexedDataset corpus(options.corpus);
  Documents documents;
  const auto begins = corpus.document_indices();
  for (std::size_t i = 0; i < corpus.document_count(); ++i) {
    TokenIds tokens;
    for (auto sequence = static_cast<std::size_t>(begins[i]);
         sequence < static_cast<std::size_t>(begins[i + 1]);
         ++sequence) {
      const std::size_t before = tokens.size();
      tokens.resize(before + corpus.length(sequence));
      corpus.read(sequence, 0, std::span(tokens).subspan(before));
    }
    for (const text::TokenId id : tokens) {
      if (id < 0 || id >= options.vocabulary) {
        throw DataError(
            {.what = "the corpus has a token that the model does not know",
             .where = options.corpus.string(),
             .values = fmt::format(
                 "{} in document {}; the model has {}",
                 id,
                 i,
                 options.vocabulary),
             .remedy = "preprocess the texts with the model's tokenizer"});
      }
    }
    tokens = begun(std::move(tokens), text);
    if (tokens.size() >= 2) {
      documents.tokens.push_back(std::move(tokens));
    }
  }
  return documents;
}

} // namespace

std::unique_ptr<Task> perplexity_task(
    const PerplexityOptions& options,
    ModelText& text,
    const Logger& logger) {
  const bool from_corpus = options.file.empty();
  Documents documents =
      from_corpus ? read_corpus(options, text) : read_file_of(options, text);
  if (documents.tokens.empty() ||
      (documents.sizes && documents.sizes->words == 0)) {
    throw DataError(
        {.what = "no text to evaluate",
         .where = (from_corpus ? options.corpus : options.file).string()});
  }
  logger.info("found {} documents", documents.tokens.size());
  return std::make_unique<PerplexityTask>(
      std::move(documents),
      WindowOptions{
          .length = options.length,
          .step = options.step,
          .fill_last = true});
}

} // namespace cairn::evaluate
