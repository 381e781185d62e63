#include "pretrain/internal/megatron_reading.h"

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::pretrain {

using checkpoints::PythonValue;

checkpoints::MegatronReadOptions megatron_reading(
    const config::ModelFlags& flags) {
  const std::array<std::pair<const char*, std::optional<std::int64_t>>, 6> said{
      {{"num_layers", flags.num_layers},
       {"hidden_size", flags.hidden_size},
       {"num_attention_heads", flags.num_attention_heads},
       {"max_position_embeddings", flags.max_position_embeddings},
       {"ffn_hidden_size", flags.ffn_hidden_size},
       {"kv_channels", flags.kv_channels}}};
  std::vector<PythonValue::Member> args;
  for (const auto& [name, value] : said) {
    if (value) {
      args.emplace_back(name, PythonValue::integer(*value));
    }
  }
  // torchtitan's files say neither.
  args.emplace_back("rotary_base", PythonValue::real(flags.rotary_base));
  args.emplace_back("norm_epsilon", PythonValue::real(flags.norm_epsilon));
  checkpoints::MegatronReadOptions options;
  options.compare_args = false;
  options.args = PythonValue::object("argparse", "Namespace", std::move(args));
  return options;
}

} // namespace cairn::pretrain
