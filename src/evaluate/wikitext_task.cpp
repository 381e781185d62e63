#include "evaluate/detokenizer.h"
#include "evaluate/result_text.h"
#include "evaluate/task.h"
#include "evaluate/task_file.h"
#include "evaluate/text_windows.h"

#include "text/internal/python_text.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cairn::evaluate {
namespace {

Detokenizer detokenizer_for(const std::filesystem::path& file) {
  return file.filename().string().find("ptb") == std::string::npos
      ? Detokenizer::wikitext
      : Detokenizer::ptb;
}

class WikiTextTask : public Task {
 public:
  WikiTextTask(
      TokenIds tokens,
      std::int64_t original,
      const WindowOptions& windows)
      : tokens_(std::move(tokens)),
        original_(original),
        rows_(text_windows(tokens_, windows)) {}

  std::span<const TextRow> rows() const override { return rows_; }

  TaskResult result(std::span<const RowScore> scores) const override {
    double sum = 0;
    for (const RowScore& score : scores) {
      sum += score.loss;
    }
    const auto tokens = static_cast<double>(tokens_.size() - 1);
    const double loss = sum / tokens;
    const double ratio = tokens / static_cast<double>(original_ - 1);
    const double ppl = capped_perplexity(loss);
    const double adjusted = capped_perplexity(loss * ratio);
    TaskResult result{
        .line =
            result_heading("WIKITEXT103") +
            fmt::format(
                "avg loss: {} | ppl: {} | adjusted ppl: {} | token ratio: {} |",
                result_number(loss),
                result_number(ppl),
                result_number(adjusted),
                python_number(ratio))};
    result.values = {
        {"avg_loss", loss},
        {"ppl", ppl},
        {"adjusted_ppl", adjusted},
        {"token_ratio", ratio},
        {"original_tokens", original_},
        {"tokenized_tokens", tokens_.size()},
        {"scored_tokens", tokens_.size() - 1}};
    return result;
  }

 private:
  TokenIds tokens_;
  std::int64_t original_; ///< words, as the file separates them
  std::vector<TextRow> rows_;
};

} // namespace

std::unique_ptr<Task> wikitext_task(
    const WikiTextOptions& options,
    ModelText& text,
    const Logger& logger) {
  std::string all = read_text(options.file);
  const std::string_view words = text::python::stripped(all);
  const std::int64_t original = std::ranges::count(words, ' ') + 1;
  const Detokenizer how = detokenizer_for(options.file);
  TokenIds tokens = text.encode(detokenized(std::move(all), how));
  if (original < 2 || tokens.size() < 2) {
    throw DataError(
        {.what = "a text of one word or token has no perplexity",
         .where = options.file.string()});
  }
  logger.info(
      "number of original tokens: {}, number of detokenized tokens: {} ({} "
      "detokenizer)",
      original,
      tokens.size(),
      name_of(how));
  return std::make_unique<WikiTextTask>(
      std::move(tokens),
      original,
      WindowOptions{.length = options.length, .step = options.step});
}

} // namespace cairn::evaluate
