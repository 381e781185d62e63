#include "checkpoints/megatron/pipeline_names.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace cairn::checkpoints::megatron {

PipelineNames::PipelineNames(
    const std::map<std::int64_t, std::set<std::string>>& names) {
  bool embedded = false;
  std::int64_t layers = 0;
  for (const auto& [number, inside] : names) {
    const auto only = [&](const std::string& name) {
      return name == "weight" || name == "bias";
    };
    Piece piece;
    if (inside.contains("word_embeddings.weight")) {
      piece.role = embedded ? Role::copy : Role::embedding;
      embedded = true;
    } else if (inside.contains("lm_head.weight")) {
      piece.role = Role::head;
    } else if (std::ranges::all_of(inside, only)) {
      piece.role = Role::norm;
    } else {
      piece.layer = layers++;
    }
    pieces_.emplace(number, piece);
  }
}

std::optional<std::string> PipelineNames::whole(
    std::int64_t piece,
    std::string_view name) const {
  const auto found = pieces_.find(piece);
  if (found == pieces_.end()) {
    throw InternalError({.what = "a piece of a pipeline that was not there"});
  }
  switch (found->second.role) {
    case Role::embedding:
      return fmt::format("language_model.embedding.{}", name);
    case Role::copy:
      return std::nullopt;
    case Role::layer:
      return fmt::format(
          "language_model.encoder.layers.{}.{}",
          found->second.layer,
          name);
    case Role::norm:
      return fmt::format("language_model.encoder.final_layernorm.{}", name);
    case Role::head:
      return name == "lm_head.weight"
          ? "language_model.output_layer.weight"
          : fmt::format("language_model.output_layer.{}", name);
  }
  throw InternalError({.what = "an unknown role"});
}

std::optional<NumberedName> numbered_name(std::string_view name) {
  constexpr std::string_view tied = "tied_modules.embed.";
  if (name.starts_with(tied)) {
    return NumberedName{-1, std::string(name.substr(tied.size()))};
  }
  NumberedName result;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, result.piece);
  if (error != std::errc() || result.piece < 0 || rest == end || *rest != '.') {
    return std::nullopt;
  }
  result.name.assign(rest + 1, end);
  return result;
}

std::map<std::string, std::string> whole_names(
    const std::set<std::string>& names) {
  std::map<std::int64_t, std::set<std::string>> inside;
  for (const std::string& name : names) {
    if (const auto part = numbered_name(name)) {
      inside[part->piece].insert(part->name);
    }
  }
  const PipelineNames pieces(inside);
  std::map<std::string, std::string> result;
  for (const std::string& name : names) {
    const auto part = numbered_name(name);
    const auto whole = part ? pieces.whole(part->piece, part->name) : name;
    if (whole) {
      result.emplace(name, *whole);
    }
  }
  return result;
}

} // namespace cairn::checkpoints::megatron
