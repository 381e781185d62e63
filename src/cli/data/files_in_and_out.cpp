#include "cli/data/files_in_and_out.h"

namespace cairn::cli {

void add_inputs(
    CLI::App& app,
    const std::string& name,
    std::vector<std::filesystem::path>& inputs,
    const std::string& about) {
  app.add_option(name + ",--input", inputs, about)
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_output(CLI::App& app, std::string& output, bool& overwrite) {
  app.add_option("-o,--output", output, "file, or - for standard output")
      ->required();
  app.add_flag("--overwrite", overwrite, "replace an output that is there");
}

} // namespace cairn::cli
