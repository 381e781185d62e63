#include <cairn/base/error.h>

#include "base/internal/progress.h"
#include "cli/data/data_command.h"
#include "cli/data/dataset_prefix.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "data/internal/merge_datasets.h"

#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::cli {

int run_data_merge(const Arguments& arguments) {
  CommandLine line(
      "cairn data merge [FLAGS…] --input FOLDER|PREFIX… --output-prefix PREFIX",
      "cairn data merge --input parts/ --output-prefix data/all");
  std::vector<std::string> inputs;
  std::string output;
  bool overwrite = false;
  CLI::App& app = line.app();
  app.description(
      "Puts datasets one after another into one: the pairs of a folder in the\n"
      "order of their names, as Megatron's tools/merge_datasets.py does, or\n"
      "pairs in the order given.");
  app.add_option("--input", inputs, "a folder, or prefixes of pairs")
      ->type_name("PATH")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->required();
  app.add_option("--output-prefix", output, "of the new pair")
      ->type_name("PREFIX")
      ->required();
  app.add_flag("--overwrite", overwrite, "replace a pair that is there");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  ::signal(SIGXFSZ, SIG_IGN); // becomes an error instead of a signal

  std::vector<std::filesystem::path> prefixes;
  for (const auto& input : inputs) {
    // A folder of the pair's name, for its indices, may lie beside the pair.
    const auto prefix = dataset_prefix(input);
    if (std::filesystem::is_directory(input) &&
        !std::filesystem::exists(data::index_path(prefix))) {
      const auto found = data::datasets_in(input);
      prefixes.insert(prefixes.end(), found.begin(), found.end());
    } else {
      prefixes.push_back(prefix);
    }
  }
  if (!overwrite && std::filesystem::exists(data::index_path(output))) {
    throw DataError(
        {.what = "the output exists already",
         .where = data::index_path(output).string(),
         .remedy = "give another --output-prefix, or --overwrite to replace "
                   "it"});
  }
  std::uint64_t total = 0;
  for (const auto& prefix : prefixes) {
    if (std::filesystem::weakly_canonical(prefix) ==
        std::filesystem::weakly_canonical(output)) {
      throw ConfigError(
          {.what = "a dataset cannot be merged into itself",
           .where = prefix.string(),
           .remedy = "give another --output-prefix"});
    }
    std::error_code absent; // reported, with its reason, when it is opened
    const auto size =
        std::filesystem::file_size(data::tokens_path(prefix), absent);
    total += absent ? 0 : size;
  }
  Progress bar({.label = "merging", .total = total, .unit = "B"});
  data::merge_datasets(prefixes, output, [&](std::uint64_t bytes) {
    bar.advance(bytes);
  });
  bar.done();
  const data::IndexedDataset merged(output);
  fmt::print(
      "{} datasets, {} documents, {} tokens\nwrote {}.bin and .idx\n",
      prefixes.size(),
      merged.document_count(),
      merged.token_count(),
      output);
  return exit_ok;
}

} // namespace cairn::cli
