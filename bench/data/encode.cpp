// data_encode_bench VOCAB MERGES CORPUS.jsonl THREADS ROUNDS: GPT-2's scheme on
// documents in memory, as the peers' batch calls have it: each round begins
// with empty caches and keeps every id.

#include "measurement.h"

#include <cairn/base/file.h>
#include <cairn/text/tokenizer.h>

#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdint>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Ids = std::vector<cairn::text::TokenId>;

std::vector<std::string> read_texts(const char* path) {
  std::istringstream lines(cairn::read_file(path, std::uint64_t{4} << 30));
  std::vector<std::string> texts;
  for (std::string line; std::getline(lines, line);) {
    texts.push_back(nlohmann::json::parse(line).at("text"));
  }
  return texts;
}

std::vector<Ids> encode(
    const cairn::text::Tokenizer& tokenizer,
    const std::vector<std::string>& texts,
    int threads) {
  std::vector<Ids> result(texts.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> crew;
  for (int i = 0; i < threads; ++i) {
    crew.emplace_back([&] {
      const auto encoder = tokenizer.make_encoder();
      Ids ids;
      for (std::size_t at = next++; at < texts.size(); at = next++) {
        ids.clear();
        encoder->encode(texts[at], ids);
        result[at] = ids;
      }
    });
  }
  crew.clear(); // waits
  return result;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(
        stderr,
        "usage: data_encode_bench VOCAB MERGES CORPUS.jsonl THREADS ROUNDS\n");
    return 2;
  }
  const auto tokenizer = cairn::text::load_tokenizer(
      {.type = "GPT2BPETokenizer",
       .vocab_file = argv[1],
       .merge_file = argv[2]});
  const auto texts = read_texts(argv[3]);
  const int threads = std::stoi(argv[4]);
  std::size_t tokens = 0;
  const auto seconds = cairn::bench::timed(std::stoi(argv[5]), [&] {
    tokens = 0;
    for (const auto& ids : encode(*tokenizer, texts, threads)) {
      tokens += ids.size();
    }
  });
  double megabytes = 0;
  for (const auto& text : texts) {
    megabytes += static_cast<double>(text.size()) / 1e6;
  }
  cairn::bench::print_rate(
      megabytes,
      "MB/s",
      seconds,
      fmt::format(
          ", \"tokens\": {}, \"megabytes\": {:.2f}",
          tokens,
          megabytes));
}
