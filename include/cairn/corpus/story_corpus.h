#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cairn::corpus {

/// How much there is to learn in the stories, exactly: worked out from the
/// probabilities of every choice that the generator makes, which the finished
/// text determines in turn. Per document; a corpus is that many independent
/// ones.
struct StoryEntropy {
  double bits_per_document = 0;
  double words_per_document = 0;      ///< expected; words are parted by blanks
  double characters_per_document = 0; ///< expected; the end mark not counted

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
  text,  ///< stories parted by an empty line
};

struct StoryCorpusOptions {
  std::filesystem::path output = "-"; ///< "-" is standard output
  StoryFormat format = StoryFormat::jsonl;
  std::uint64_t seed = 1234;
  /// Either this many stories, or as many as it takes to reach `bytes`.
  std::optional<std::uint64_t> documents{};
  std::uint64_t bytes = 0;
  std::size_t workers = 1;
  /// Told of bytes (stories, when their number is given) as they are written.
  std::function<void(std::uint64_t)> on_progress{};
};

struct StoryCorpusReport {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;
  std::uint64_t words = 0;
  std::uint64_t characters = 0; ///< of the stories alone
};

/// Writes the same bytes whatever the number of workers; a file appears under
/// its name when it is complete.
StoryCorpusReport write_story_corpus(const StoryCorpusOptions& options);

} // namespace cairn::corpus
