#pragma once

#include "text/internal/word_counter.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace cairn::cli {

struct WordSource {
  std::filesystem::path file; ///< or "-"
  bool is_jsonl = false;      ///< a JSON object a line; else plain text
};

struct CountWordsOptions {
  std::string json_key = "text";
  std::size_t threads = 1;
};

/// Counts the words of all sources. Plain text is taken line by line with the
/// line ends, JSONL text by text, as Hugging Face's trainer takes files and
/// iterators. `read` is called with the number of stored bytes that are done.
text::WordCounter count_words(
    const std::vector<WordSource>& sources,
    const CountWordsOptions& options,
    const std::function<void(std::uint64_t bytes)>& read);

} // namespace cairn::cli
