// text_train_bench TEXT [VOCAB_SIZE [SECONDS]]: how fast one thread counts the
// words of a plain text, learns a vocabulary from them, and splits the text
// into sentences; in MB (10^6 bytes) per second by the best of several rounds.

#include "best_seconds.h"
#include "text/internal/bpe_trainer.h"

#include <cairn/base/file.h>
#include <cairn/text/sentence_splitter.h>

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

using namespace cairn::text;
using cairn::bench::best_seconds;

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: text_train_bench TEXT [VOCAB_SIZE [SECONDS]]\n");
    return 2;
  }
  const std::string text = cairn::read_file(argv[1], std::uint64_t{4} << 30);
  const std::size_t vocab_size = argc > 2 ? std::stoul(argv[2]) : 52000;
  const double budget = argc > 3 ? std::stod(argv[3]) : 2;
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  const auto report = [&](const char* name, double seconds) {
    fmt::print(
        "{:<28} {:8.2f} s {:8.1f} MB/s\n",
        name,
        seconds,
        megabytes / seconds);
  };

  const WordCounter empty;
  WordCounter words = empty.fresh();
  report("count words", best_seconds(budget, [&] {
           words = empty.fresh();
           words.add(text);
         }));
  std::size_t merges = 0;
  report("learn merges", best_seconds(budget, [&] {
           merges = train_bpe(words, {.vocab_size = vocab_size}).merges.size();
         }));

  const auto splitter = SentenceSplitter::english();
  std::vector<std::string_view> sentences;
  for (const bool keep_newlines : {false, true}) {
    const double seconds = best_seconds(budget, [&] {
      sentences.clear();
      splitter.split(text, sentences, keep_newlines);
    });
    report(
        keep_newlines ? "split, newlines kept" : "split into sentences",
        seconds);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "{:.1f} MB, {} distinct words, {} merges, {} sentences; peak memory {} "
      "MB, of which the text {:.0f}\n",
      megabytes,
      words.distinct(),
      merges,
      sentences.size(),
      usage.ru_maxrss / 1000,
      megabytes);
}
