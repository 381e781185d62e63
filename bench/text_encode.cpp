// text_encode VOCAB MERGES INPUT.jsonl|TEXT [THREADS [SECONDS]]: how fast
// GPT-2's scheme cuts and encodes, in MB (10^6 bytes of text) per second.
//
// Measures, in turn and by the best of several rounds: cutting alone by the
// scanner of the library and by PCRE2's JIT compiler with the same pattern, so
// that the faster can be kept; encoding by one thread, cold and warm; encoding
// by all threads, each with its own encoder, documents shared out one by one.

#include "best_seconds.h"
#include "text/schemes/bpe/gpt2_splitter.h"
#include "text/schemes/bpe/regex_splitter.h"

#include <cairn/base/file.h>
#include <cairn/text/tokenizer.h>

#include <fmt/format.h>
#include <sys/resource.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace cairn::text;
using cairn::bench::best_seconds;

std::vector<std::string> read_documents(const std::string& path) {
  const std::string content = cairn::read_file(path, std::uint64_t{4} << 30);
  if (!path.ends_with(".jsonl")) {
    return {content};
  }
  std::vector<std::string> documents;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    documents.push_back(nlohmann::json::parse(line)["text"]);
  }
  return documents;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(
        stderr,
        "usage: text_encode VOCAB MERGES INPUT [THREADS [SECONDS]]\n");
    return 2;
  }
  const auto documents = read_documents(argv[3]);
  const int threads = argc > 4 ? std::stoi(argv[4]) : 2;
  const double budget = argc > 5 ? std::stod(argv[5]) : 2;
  double megabytes = 0;
  for (const auto& document : documents) {
    megabytes += static_cast<double>(document.size()) / 1e6;
  }
  const auto tokenizer = load_tokenizer(
      {.type = "GPT2BPETokenizer",
       .vocab_file = argv[1],
       .merge_file = argv[2]});
  fmt::print("{} documents, {:.1f} MB\n", documents.size(), megabytes);
  const auto report = [&](const char* name, double seconds) {
    fmt::print("{:<28} {:8.1f} MB/s\n", name, megabytes / seconds);
  };

  const Gpt2Splitter splitter;
  std::size_t pieces = 0;
  report("cut, own scanner", best_seconds(budget, [&] {
           pieces = 0;
           for (const auto& document : documents) {
             const char* end = document.data() + document.size();
             for (const char* at = document.data(); at != end; ++pieces) {
               at = splitter.next(at, end);
             }
           }
         }));
  const RegexSplitter regex(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      RegexSplitter::Keep::all,
      "GPT-2's pattern");
  const RegexScratch scratch;
  std::size_t regex_pieces = 0;
  report("cut, PCRE2 JIT", best_seconds(budget, [&] {
           regex_pieces = 0;
           for (const auto& document : documents) {
             regex.split(document, scratch, [&](std::string_view) {
               ++regex_pieces;
             });
           }
         }));
  fmt::print("{} pieces, {} by PCRE2\n", pieces, regex_pieces);

  std::size_t tokens = 0;
  const auto encode_all = [&](Encoder& encoder) {
    std::vector<TokenId> ids;
    tokens = 0;
    for (const auto& document : documents) {
      ids.clear();
      encoder.encode(document, ids);
      tokens += ids.size();
    }
  };
  report("encode, cold, 1 thread", best_seconds(budget, [&] {
           encode_all(*tokenizer->make_encoder());
         }));
  const auto warm = tokenizer->make_encoder();
  report("encode, warm, 1 thread", best_seconds(budget, [&] {
           encode_all(*warm);
         }));
  report("encode, cold, all threads", best_seconds(budget, [&] {
           std::atomic<std::size_t> next = 0;
           std::vector<std::jthread> crew;
           for (int i = 0; i < threads; ++i) {
             crew.emplace_back([&] {
               const auto encoder = tokenizer->make_encoder();
               std::vector<TokenId> ids;
               for (std::size_t at = next++; at < documents.size();
                    at = next++) {
                 ids.clear();
                 encoder->encode(documents[at], ids);
               }
             });
           }
         }));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "{} tokens, {:.2f} bytes each; {} threads; peak memory {} MB, of which "
      "the documents {:.0f}\n",
      tokens,
      megabytes * 1e6 / static_cast<double>(tokens),
      threads,
      usage.ru_maxrss / 1000,
      megabytes);
}
