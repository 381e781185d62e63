#pragma once

#include "support/temporary_folder.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

// Small data in the formats of MNLI and RACE, which a tiny BERT learns in
// seconds, and a vocabulary for them.

namespace cairn::evaluate::toy {

using Words = std::vector<std::string>;

inline const Words animals{"cat", "dog", "fox", "hen", "cow", "owl"};
inline const Words colours{"red", "blue", "green", "grey"};

/// The file of a vocabulary that has all words of the tasks.
inline std::string vocabulary(const testing::TemporaryFolder& folder) {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const Words& words :
       {animals,
        colours,
        Words{
            "the",
            "is",
            "was",
            "saw",
            "a",
            ".",
            "?",
            "never",
            "surely",
            "maybe",
            "which",
            "gold",
            "in",
            "house",
            "not"}}) {
    for (const std::string& word : words) {
      text += word + "\n";
    }
  }
  return folder.write("vocab.txt", text);
}

/// Numbers that look random and are the same everywhere.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  const std::string& from(const Words& words) {
    return words[next() % words.size()];
  }
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return state_ >> 33;
  }

 private:
  std::uint64_t state_;
};

/// A file in the format of MNLI's train.tsv. A word of the hypothesis decides.
inline std::string mnli_file(
    const testing::TemporaryFolder& folder,
    const std::string& name,
    std::int64_t rows,
    std::uint64_t seed) {
  Draw draw(seed);
  std::string text =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
      "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\t"
      "sentence2\tlabel1\tgold_label\n";
  constexpr std::array answers{
      std::pair("never", "contradiction"),
      std::pair("surely", "entailment"),
      std::pair("maybe", "neutral")};
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto& [word, label] = answers[draw.next() % answers.size()];
    const std::string& animal = draw.from(animals);
    text += fmt::format(
        "{}\tp\tq\ttoy\t\t\t\t\tThe {} is {} .\tThe {} {} was {} .\t{}\t{}\n",
        i,
        animal,
        draw.from(colours),
        animal,
        word,
        draw.from(colours),
        label,
        label);
  }
  return folder.write(name, text);
}

/// A folder in the format of RACE. The right option has gold in it.
inline std::string race_folder(
    const testing::TemporaryFolder& folder,
    const std::string& name,
    std::int64_t articles,
    std::uint64_t seed) {
  Draw draw(seed);
  std::filesystem::create_directories(folder / name);
  for (std::int64_t i = 0; i < articles; ++i) {
    std::string questions;
    std::string options;
    std::string answers;
    for (int question = 0; question < 2; ++question) {
      const auto right = static_cast<int>(draw.next() % 4);
      std::string own;
      for (int option = 0; option < 4; ++option) {
        own += fmt::format(
            R"({}"a {} {}")",
            option == 0 ? "" : ", ",
            option == right ? "gold" : draw.from(colours),
            draw.from(animals));
      }
      const char* comma = question == 0 ? "" : ", ";
      questions += fmt::format(R"({}"The house was in _ .")", comma);
      options += fmt::format("{}[{}]", comma, own);
      answers += fmt::format(R"({}"{}")", comma, "ABCD"[right]);
    }
    folder.write(
        fmt::format("{}/{:03}.txt", name, i),
        fmt::format(
            R"({{"article": "The {} saw a {} .", "questions": [{}], )"
            R"("options": [{}], "answers": [{}]}})"
            "\n",
            draw.from(animals),
            draw.from(animals),
            questions,
            options,
            answers));
  }
  return (folder / name).string();
}

} // namespace cairn::evaluate::toy
