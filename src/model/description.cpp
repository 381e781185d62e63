#include <cairn/model/description.h>

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace cairn::model {

namespace {

// Limits far beyond any model: they bound what a hostile file can make us
// allocate.
constexpr std::int64_t most_layers = 10'000;
constexpr std::int64_t most_experts = 1 << 16;
constexpr std::int64_t largest_size = std::int64_t{1} << 30;

[[noreturn]] void impossible(const std::string& where, std::string what) {
  throw CheckpointError(
      {.what = "not a possible model",
       .where = where,
       .values = std::move(what)});
}

/// Checks which layers have experts, and how many.
void check_expert_layers(const ModelDescription& d, const std::string& where) {
  const ExpertsDescription& e = *d.experts;
  if (e.interval < 1 || e.interval > d.layers) {
    impossible(
        where,
        fmt::format("experts in every {} of {} layers", e.interval, d.layers));
  }
  const std::size_t layers = static_cast<std::size_t>(d.layers / e.interval);
  if (e.counts.size() != 1 && e.counts.size() != layers) {
    impossible(
        where,
        fmt::format(
            "{} numbers of experts for {} layers that have some",
            e.counts.size(),
            layers));
  }
  if (e.counts.size() > 1 && kind_of(d.family) == ModelKind::t5 &&
      d.decoder_layers != d.layers) {
    impossible(
        where,
        fmt::format(
            "{} numbers of experts for stacks of {} and {} layers",
            e.counts.size(),
            d.layers,
            d.decoder_layers));
  }
  for (const std::int64_t count : e.counts) {
    if (count < 1 || count > most_experts) {
      impossible(where, fmt::format("{} experts in a layer", count));
    }
  }
}

/// Checks how tokens reach experts.
void check_routing(const ExpertsDescription& e, const std::string& where) {
  if (e.top_k < 1) {
    impossible(where, fmt::format("{} experts for a token", e.top_k));
  }
  for (const std::int64_t count : e.counts) {
    if (count > 1 && e.top_k > count) { // a count of 1 is an MLP
      impossible(
          where,
          fmt::format("{} of {} experts for a token", e.top_k, count));
    }
  }
  if (e.min_capacity < 0 || e.min_capacity > largest_size) {
    impossible(
        where,
        fmt::format("room for {} tokens at least", e.min_capacity));
  }
  for (const double factor :
       {e.train_capacity_factor, e.eval_capacity_factor}) {
    if (!std::isfinite(factor) || factor <= 0) {
      impossible(where, fmt::format("a capacity factor of {}", factor));
    }
  }
  if (!std::isfinite(e.loss_coefficient) || e.loss_coefficient < 0) {
    impossible(
        where,
        fmt::format("a loss coefficient of {}", e.loss_coefficient));
  }
}

void check_scaling(
    const RopeScaling& s,
    std::int64_t head_size,
    const std::string& where) {
  const auto positive = [&](double number) {
    if (!std::isfinite(number) || number <= 0) {
      impossible(where, fmt::format("{} scales rotary positions", number));
    }
  };
  positive(s.factor);
  if (s.yarn) {
    positive(s.yarn->fast_turns);
    positive(s.yarn->slow_turns);
    positive(s.yarn->attention_factor);
    positive(static_cast<double>(s.original_positions));
  }
  if (s.longrope) {
    positive(s.longrope->attention_factor);
    positive(static_cast<double>(s.original_positions));
    for (const auto* factors :
         {&s.longrope->short_factors, &s.longrope->long_factors}) {
      if (std::ssize(*factors) != head_size / 2) {
        impossible(
            where,
            fmt::format(
                "{} factors for the {} frequencies of a head",
                factors->size(),
                head_size / 2));
      }
      std::ranges::for_each(*factors, positive);
    }
  }
}

/// Checks parts of attention and block that not every model has.
void check_attention(const ModelDescription& d, const std::string& where) {
  if (d.attention_bias && d.query_key_value_bias) {
    impossible(where, "biases of all of attention, and of a part of it alone");
  }
  const bool left_to_right = kind_of(d.family) == ModelKind::gpt;
  for (const auto& [has, what] :
       {std::pair{d.query_key_norm, "norms of queries and keys"},
        std::pair{d.parallel_residual, "attention and MLP side by side"}}) {
    if (has && (!left_to_right || d.norm_place != NormPlace::before)) {
      impossible(where, fmt::format("a {} with {}", name_of(d.family), what));
    }
  }
}

} // namespace

void check(const ModelDescription& d, const std::string& where) {
  const auto refuse = [&](std::string_view what, std::int64_t value) {
    impossible(where, fmt::format("{} is {}", what, value));
  };
  const auto within = [&](std::string_view what,
                          std::int64_t value,
                          std::int64_t least,
                          std::int64_t most) {
    if (value < least || value > most) {
      refuse(what, value);
    }
  };
  const bool t5 = d.family == ModelFamily::t5;
  within("the number of layers", d.layers, 1, most_layers);
  within("the number of decoder layers", d.decoder_layers, t5, most_layers);
  within("the hidden size", d.hidden, 1, largest_size);
  within("the number of heads", d.heads, 1, largest_size);
  within("the number of key/value heads", d.key_value_heads, 1, d.heads);
  within("the size of a head", d.head_size, 1, largest_size);
  within("the MLP's size", d.ffn, 1, largest_size);
  within("the vocabulary's size", d.vocabulary, 1, largest_size);
  within(
      "the padded vocabulary's size",
      d.padded_vocabulary,
      d.vocabulary,
      largest_size);
  within(
      "the number of positions",
      d.positions,
      d.position == PositionKind::learned,
      largest_size);
  within("the first position", d.position_offset, 0, d.positions);
  within("the number of token types", d.token_types, 0, largest_size);
  const bool relative = d.position == PositionKind::relative;
  within("the number of buckets", d.relative_buckets, relative, largest_size);
  within("the largest distance", d.relative_distance, relative, largest_size);
  if (d.heads % d.key_value_heads != 0) {
    refuse("the number of key/value heads", d.key_value_heads);
  }
  for (const double number :
       {d.rope_theta, d.norm_epsilon, d.dropout, d.attention_dropout}) {
    if (!std::isfinite(number) || number < 0) {
      impossible(where, fmt::format("{}", number));
    }
  }
  within("the turned part of a head", d.rotary_size, 0, d.head_size);
  if (d.position == PositionKind::rotary && rotary_elements(d) % 2 != 0) {
    refuse("the turned part of a head", rotary_elements(d));
  }
  check_attention(d, where);
  if (d.rope_scaling) {
    check_scaling(*d.rope_scaling, rotary_elements(d), where);
  }
  if (d.experts) {
    check_expert_layers(d, where);
    check_routing(*d.experts, where);
  }
}

std::optional<std::int64_t> longest_short_text(const ModelDescription& d) {
  return d.rope_scaling && d.rope_scaling->longrope
      ? std::optional(d.rope_scaling->original_positions)
      : std::nullopt;
}

std::int64_t experts_in_layer(const ModelDescription& d, std::int64_t layer) {
  if (!d.experts || (layer + 1) % d.experts->interval != 0) {
    return 0;
  }
  const auto place = static_cast<std::size_t>(layer / d.experts->interval);
  const std::int64_t count = d.experts->counts.size() == 1
      ? d.experts->counts[0]
      : d.experts->counts.at(place);
  return count > 1 ? count : 0;
}

bool has_experts(const ModelDescription& d) {
  for (std::int64_t i = 0; i < d.layers; ++i) {
    if (experts_in_layer(d, i) > 0) {
      return true;
    }
  }
  return false;
}

bool has_query_key_value_bias(const ModelDescription& d) {
  return d.attention_bias || d.query_key_value_bias;
}

std::int64_t rotary_elements(const ModelDescription& d) {
  return d.rotary_size > 0 ? d.rotary_size : d.head_size;
}

bool begins_texts(const ModelDescription& d) {
  return d.family == ModelFamily::llama && !d.query_key_norm &&
      !d.query_key_value_bias;
}

bool has_word_head(const ModelDescription& d) {
  return d.masked_head || kind_of(d.family) != ModelKind::bert;
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t multiple) {
  return (vocabulary + multiple - 1) / multiple * multiple;
}

ModelDescription with_padding(ModelDescription description) {
  description.vocabulary = description.padded_vocabulary;
  return description;
}

} // namespace cairn::model
