#include "checkpoints/megatron/pipeline.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace cairn::checkpoints::megatron {

namespace {

void expect_divides(
    std::string_view what,
    std::int64_t value,
    std::string_view by,
    std::int64_t divisor) {
  if (divisor < 1 || value % divisor != 0) {
    throw ConfigError(
        {.what = fmt::format("{} cannot be cut over {}", what, by),
         .values = fmt::format("{} over {}", value, divisor)});
  }
}

Place layer_place(
    const std::string& parameter,
    std::size_t at,
    const Stages& stages) {
  std::int64_t number = 0;
  const char* const begin = parameter.data() + at;
  const char* const end = parameter.data() + parameter.size();
  const char* const rest = std::from_chars(begin, end, number).ptr;
  const std::int64_t each = stages.layers / stages.count;
  return {
      stages.first + number / each,
      fmt::format(
          "{}{}{}",
          parameter.substr(0, at),
          number % each,
          std::string_view(rest, static_cast<std::size_t>(end - rest)))};
}

} // namespace

MegatronSplit checked(const model::ModelDescription& d, MegatronSplit split) {
  if (split.pipeline < 1) {
    throw ConfigError(
        {.what = "at least one pipeline stage is wanted",
         .values = fmt::format("{}", split.pipeline)});
  }
  const auto tensor_ranks = "the tensor parallel ranks";
  expect_divides("the heads", d.heads, tensor_ranks, split.tensor);
  if (split.tensor % d.key_value_heads == 0) {
    // Several ranks share a head: each has as many of its rows as the others.
    expect_divides(
        "the rows of a key and a value",
        2 * d.head_size,
        "the ranks that share them",
        split.tensor / d.key_value_heads);
  } else {
    expect_divides(
        "the key/value heads",
        d.key_value_heads,
        tensor_ranks,
        split.tensor);
  }
  expect_divides("the MLP", d.ffn, tensor_ranks, split.tensor);
  if (split.expert != 1) {
    expect_divides(
        "the experts of a layer",
        has_experts(d) ? d.experts->counts.front() : 1,
        "the expert parallel ranks",
        split.expert);
  }
  if (d.family != model::ModelFamily::t5) {
    expect_divides(
        "the layers",
        d.layers,
        "the pipeline stages",
        split.pipeline);
    return split;
  }
  if (split.encoder_stages == 0) {
    split.encoder_stages = split.pipeline / 2;
  }
  if (split.pipeline > 1) {
    expect_divides(
        "the encoder's layers",
        d.layers,
        "its pipeline stages",
        split.encoder_stages);
    expect_divides(
        "the decoder's layers",
        d.decoder_layers,
        "its pipeline stages",
        split.pipeline - split.encoder_stages);
  }
  return split;
}

Pipeline::Pipeline(const model::ModelDescription& d, const MegatronSplit& split)
    : split_(split), encoder_{0, split.pipeline, d.layers} {
  if (d.family == model::ModelFamily::t5) {
    const bool one = split.pipeline == 1;
    encoder_.count = one ? 1 : split.encoder_stages;
    decoder_ = {
        one ? 0 : split.encoder_stages,
        one ? 1 : split.pipeline - split.encoder_stages,
        d.decoder_layers};
  }
}

Place Pipeline::place(const std::string& parameter) const {
  const bool decoder = parameter.starts_with("decoder.");
  const Stages& stages = decoder ? decoder_ : encoder_;
  const auto at = parameter.find("layers.");
  if (at != std::string::npos) {
    return layer_place(parameter, at + 7, stages);
  }
  if (parameter.starts_with("embedding.")) {
    return {0, parameter};
  }
  if (parameter.ends_with("final_norm.weight") ||
      parameter.ends_with("final_norm.bias")) {
    return {stages.first + stages.count - 1, parameter};
  }
  return {split_.pipeline - 1, parameter};
}

bool Pipeline::copies_embedding(std::int64_t stage) const {
  return decoder_.layers > 0 && stage > 0 && stage == decoder_.first;
}

bool Pipeline::copies_for_head(std::int64_t stage) const {
  return stage > 0 && stage == split_.pipeline - 1 && !copies_embedding(stage);
}

} // namespace cairn::checkpoints::megatron
