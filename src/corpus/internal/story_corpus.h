#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cairn::corpus {

/// The exact entropy of the stories, computed from the probabilities of every
/// choice that the generator makes. (The finished text determines all choices.)
/// Values are per document; the documents of a corpus are independent.
struct StoryEntropy {
  double bits_per_document = 0;
  double words_per_document = 0;      ///< expected; blanks separate words
  double characters_per_document = 0; ///< expected, without the end mark

  double bits_per_word() const {
    return bits_per_document / words_per_document;
  }
  double bits_per_character() const {
    return bits_per_document / characters_per_document;
  }
};

StoryEntropy story_entropy();

/// Story number `document` of the endless corpus with that seed.
std::string story(std::uint64_t seed, std::uint64_t document);

enum class StoryFormat {
  jsonl, ///< {"id": 0, "text": "…"}
  text,  ///< stories separated by an empty line
};

struct StoryCorpusOptions {
  std::filesystem::path output = "-"; ///< "-" is standard output
  StoryFormat format = StoryFormat::jsonl;
  std::uint64_t seed = 1234;
  /// The number of stories; empty: as many as it takes to reach `bytes`.
  std::optional<std::uint64_t> documents{};
  std::uint64_t bytes = 0;
  std::size_t workers = 1;
  /// Called with the number of bytes (of stories, when `documents` is set) that
  /// have been written.
  std::function<void(std::uint64_t)> on_progress{};
};

struct StoryCorpusReport {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;
  std::uint64_t words = 0;
  std::uint64_t characters = 0; ///< in the stories alone
};

/// Writes the corpus; the bytes do not depend on the number of workers. The
/// file appears under its name when it is complete.
StoryCorpusReport write_story_corpus(const StoryCorpusOptions& options);

} // namespace cairn::corpus
