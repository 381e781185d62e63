#include "cli/checkpoint/megatron_model_flags.h"

#include "cli/program/command_line.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using checkpoints::PythonValue;

constexpr std::array<std::pair<const char*, const char*>, 7> flags{
    {{"--num-layers", "transformer layers"},
     {"--hidden-size", "width of the layers"},
     {"--num-attention-heads", "heads of a layer"},
     {"--max-position-embeddings", "positions"},
     {"--ffn-hidden-size", "width of the MLP; 4 x hidden size if not said"},
     {"--kv-channels", "size of a head; hidden size / heads if not said"},
     {"--rotary-base", "base of rotary positions"}}};

} // namespace

void MegatronModelFlags::add_to(CLI::App& app) {
  const std::string group =
      "Megatron's model (where its files do not say it; else compared)";
  for (const auto& [flag, help] : flags) {
    std::string arg = std::string(flag).substr(2);
    std::ranges::replace(arg, '-', '_');
    app.add_option(flag, numbers_[arg], help)
        ->type_name("INT")
        ->check(at_least(1))
        ->group(group);
  }
  app.add_option(
         "--vocab-size",
         vocabulary_,
         "entries of the vocabulary without padding")
      ->type_name("INT")
      ->check(at_least(1))
      ->group(group);
  app.add_option(
         "--norm-epsilon",
         norm_epsilon_,
         "epsilon of the norms; 1e-5 if not said")
      ->type_name("FLOAT")
      ->check(CLI::PositiveNumber)
      ->group(group);
}

void MegatronModelFlags::expect(const std::string& name, std::int64_t value) {
  numbers_[name] = value;
}

checkpoints::MegatronReadOptions MegatronModelFlags::reading() const {
  std::vector<PythonValue::Member> members;
  for (const auto& [name, value] : numbers_) {
    if (value) {
      members.emplace_back(name, PythonValue::integer(*value));
    }
  }
  if (norm_epsilon_) {
    members.emplace_back("norm_epsilon", PythonValue::real(*norm_epsilon_));
  }
  checkpoints::MegatronReadOptions options{.vocabulary = vocabulary_};
  if (!members.empty()) {
    options.args =
        PythonValue::object("argparse", "Namespace", std::move(members));
  }
  return options;
}

} // namespace cairn::cli
