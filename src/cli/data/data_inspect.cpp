#include <cairn/base/error.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/text/tokenizer.h>

#include "cli/data/data_command.h"
#include "cli/data/dataset_prefix.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "cli/program/text_table.h"
#include "data/internal/dataset_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

constexpr std::size_t bar_width = 50;

std::string blocks(std::uint64_t count, std::uint64_t most) {
  // Eighths of a character, and at least one for a number that is not 0.
  static constexpr const char* eighths[] =
      {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto length = std::max<std::size_t>(
      count > 0 ? 1 : 0,
      static_cast<std::size_t>(
          static_cast<double>(count) / static_cast<double>(most) *
          (bar_width * 8)));
  std::string text;
  for (std::size_t i = 0; i < length / 8; ++i) {
    text += "█";
  }
  return text + eighths[length % 8];
}

void print_lengths(
    const std::string& title,
    const data::LengthSummary& lengths) {
  fmt::print(
      "\n{}: {} to {}, {:.1f} on average\n",
      title,
      lengths.least,
      lengths.most,
      lengths.mean);
  const std::uint64_t most = lengths.buckets.empty()
      ? 0
      : *std::max_element(lengths.buckets.begin(), lengths.buckets.end());
  const auto first = std::find_if(
      lengths.buckets.begin(),
      lengths.buckets.end(),
      [](std::uint64_t n) { return n > 0; });
  for (auto bucket = first; bucket != lengths.buckets.end(); ++bucket) {
    const auto b = static_cast<unsigned>(bucket - lengths.buckets.begin());
    const std::uint64_t low = b == 0 ? 0 : std::uint64_t{1} << (b - 1);
    const std::uint64_t high = b == 0 ? 0 : low + (low - 1);
    const std::string range =
        low == high ? fmt::to_string(low) : fmt::format("{}-{}", low, high);
    fmt::print("{:>17} {:>12} {}\n", range, *bucket, blocks(*bucket, most));
  }
}

std::string decoded(
    const data::IndexedDataset& dataset,
    const text::Tokenizer& tokenizer,
    const std::vector<std::int32_t>& ids) {
  try {
    return tokenizer.decode(ids);
  } catch (const Error& error) {
    Problem problem = error.problem();
    problem.where = data::tokens_path(dataset.prefix()).string();
    problem.remedy = "was it made with another tokenizer?";
    throw DataError(std::move(problem));
  }
}

void print_sequence(
    const data::IndexedDataset& dataset,
    std::size_t sequence,
    const text::Tokenizer* tokenizer,
    std::size_t most) {
  std::vector<std::int32_t> ids(std::min(dataset.length(sequence), most));
  dataset.read(sequence, 0, ids);
  const char* const more = ids.size() < dataset.length(sequence) ? " …" : "";
  if (tokenizer != nullptr) {
    fmt::print(
        "    {}{}\n",
        shown_text(decoded(dataset, *tokenizer, ids)),
        more);
  } else {
    fmt::print("    {}{}\n", fmt::join(ids, " "), more);
  }
}

void print_documents(
    const data::IndexedDataset& dataset,
    const text::Tokenizer* tokenizer,
    std::size_t count,
    std::size_t most_tokens) {
  constexpr std::int64_t most_sequences = 5;
  const auto documents = dataset.document_indices();
  for (std::size_t i = 0; i < std::min(count, dataset.document_count()); ++i) {
    const std::int64_t begin = documents[i];
    const std::int64_t sequences = documents[i + 1] - begin;
    std::uint64_t tokens = 0;
    for (std::int64_t s = 0; s < sequences; ++s) {
      tokens += dataset.length(static_cast<std::size_t>(begin + s));
    }
    fmt::print(
        "\ndocument {}: {} tokens{}\n",
        i,
        tokens,
        sequences > 1 ? fmt::format(" in {} sequences", sequences) : "");
    for (std::int64_t s = 0; s < std::min(sequences, most_sequences); ++s) {
      print_sequence(
          dataset,
          static_cast<std::size_t>(begin + s),
          tokenizer,
          most_tokens);
    }
    if (sequences > most_sequences) {
      fmt::print("    … {} more\n", sequences - most_sequences);
    }
  }
}

} // namespace

int run_data_inspect(const Arguments& arguments) {
  CommandLine line(
      "cairn data inspect PREFIX [FLAGS…]",
      "cairn data inspect data/wiki_text_document --vocab-file vocab.json "
      "--merge-file merges.txt");
  std::string typed;
  std::size_t documents = 3;
  std::size_t tokens = 40;
  text::TokenizerOptions tokenizer_options;
  CLI::App& app = line.app();
  app.description(
      "Shows what is in a pair of token files: counts, how long documents "
      "are,\n"
      "and the first of them; as text when a tokenizer is given, else as ids.");
  app.add_option("prefix", typed, "prefix of a .bin and .idx pair")
      ->type_name("PREFIX")
      ->required();
  app.add_option("--documents", documents, "how many to show")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option("--tokens", tokens, "how much of each sequence")
      ->check(at_least(0))
      ->capture_default_str();
  add_tokenizer_flags(app, tokenizer_options);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  std::shared_ptr<const text::Tokenizer> tokenizer;
  if (any_tokenizer_flag(app)) {
    tokenizer = text::load_tokenizer(tokenizer_options);
  }
  const auto prefix = dataset_prefix(typed);
  const data::IndexedDataset dataset(prefix);
  const auto by_document = data::document_lengths(dataset);
  fmt::print("{}\n", prefix.string());
  fmt::print(
      "format     {}, {}{}\n",
      dataset.format() == data::IndexFormat::mmap ? "mmap (MMIDIDX)"
                                                  : "lazy or cached (TNTIDX)",
      name_of(dataset.type()),
      dataset.multimodal() ? ", multimodal" : "");
  fmt::print(
      "documents  {}{}\n",
      dataset.document_count(),
      by_document.count > 0 && by_document.buckets[0] > 0
          ? fmt::format(" ({} empty)", by_document.buckets[0])
          : "");
  fmt::print("sequences  {}\n", dataset.sequence_count());
  fmt::print("tokens     {}\n", dataset.token_count());
  fmt::print(
      "size       {} + {} index\n",
      shown_byte_size(std::filesystem::file_size(data::tokens_path(prefix))),
      shown_byte_size(std::filesystem::file_size(data::index_path(prefix))));
  print_lengths("tokens per document", by_document);
  if (dataset.sequence_count() > dataset.document_count()) {
    print_lengths("tokens per sequence", data::sequence_lengths(dataset));
  }
  print_documents(dataset, tokenizer.get(), documents, tokens);
  return exit_ok;
}

} // namespace cairn::cli
