#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

class PunktModel;

/// Cuts text into sentences as NLTK's Punkt does. Punkt knows the abbreviations
/// of a language, and how its words are written inside and at the start of a
/// sentence. Immutable and cheap to copy; any number of threads may use one.
class SentenceSplitter {
 public:
  /// A splitter with NLTK's English model, which is built in.
  static SentenceSplitter english();

  /// A splitter with a model of your own: the JSON form of
  /// share/punkt/english.json, or one abbreviation per line
  /// (docs/sentences.md). Throws DataError for a file that is missing or
  /// broken.
  static SentenceSplitter load(const std::filesystem::path& file);

  /// A splitter with a model in memory, in a form that load() takes; `name` is
  /// for messages.
  static SentenceSplitter parse(const std::string& text, std::string_view name);

  /// Appends the sentences of `text`, as views into it, in order. Whitespace
  /// between sentences belongs to no sentence, or, with `keep_newlines`
  /// (Megatron's --keep-newlines), to the sentence before it. `text` may hold
  /// any bytes.
  void split(
      std::string_view text,
      std::vector<std::string_view>& sentences,
      bool keep_newlines) const;

 private:
  explicit SentenceSplitter(PunktModel model);

  std::shared_ptr<const PunktModel> model_;
};

} // namespace cairn::text
