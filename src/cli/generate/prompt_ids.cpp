#include "cli/generate/prompt_ids.h"

#include "cli/generate/generate_flags.h"
#include "cli/generate/load_generator.h"

#include <cairn/base/error.h>
#include <cairn/generate/beam_search.h>
#include <cairn/generate/generate.h>
#include <cairn/generate/text_batch.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <system_error>

namespace cairn::cli {

std::vector<std::int64_t> parse_prompt_ids(const std::string& text) {
  std::vector<std::int64_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (after != end && *after != ',')) {
      throw ConfigError(
          {.what = "token ids are numbers with commas between them",
           .where = "--prompt-ids",
           .values = text,
           .remedy = "write them as in --prompt-ids 5,17,3"});
    }
    ids.push_back(id);
    if (after == end) {
      return ids;
    }
    at = after + 1;
  }
}

namespace {

using Json = nlohmann::ordered_json;

Json ids_object(
    const std::vector<std::int64_t>& prompt,
    const std::vector<std::int64_t>& ids,
    bool finished) {
  return {{"prompt_ids", prompt}, {"ids", ids}, {"finished", finished}};
}

std::vector<Json> searched(
    const config::Config& config,
    const generate::TextModel& model,
    const std::vector<std::int64_t>& prompt) {
  const config::GenerationFlags& flags = config.flags.generation;
  const generate::GenerateOptions options = generate_options(config);
  const std::int64_t longest =
      generate::longest_text(model.description(), options);
  const generate::Beginning beginning =
      generate::beginning_of(model.description(), prompt, std::nullopt);
  generate::require_room(beginning.prompt, longest);
  generate::BeamSearch search(model, flags.beam_width, batch_options(config));
  std::vector<Json> objects;
  for (const generate::Beam& beam : search.after(
           beginning.prompt,
           {.width = flags.beam_width,
           .length_penalty = flags.length_penalty,
           .most_tokens = std::min(
               options.most_tokens,
               longest - std::ssize(beginning.prompt)),
           .end = model.description().end_token,
           .stops = options.stops,
           .source = beginning.source})) {
    objects.push_back(ids_object(prompt, beam.tokens, beam.finished));
    objects.back()["score"] = beam.score;
  }
  return objects;
}

std::vector<Json> chosen(
    const config::Config& config,
    const generate::TextModel& model,
    const std::vector<std::int64_t>& prompt) {
  const config::GenerationFlags& flags = config.flags.generation;
  generate::TextBatch batch(model, batch_options(config));
  generate::GenerateOptions options = generate_options(config);
  options.end = model.description().end_token;
  const auto count =
      static_cast<std::size_t>(std::max<std::int64_t>(1, flags.num_samples));
  std::vector<Json> objects;
  for (const generate::Continuation& text : generate::generate(
           batch,
           model.description(),
           std::vector(count, prompt),
           options)) {
    objects.push_back(ids_object(prompt, text.tokens, text.finished));
    if (flags.return_log_probs || flags.top_n_logprobs > 0) {
      add_log_probs(objects.back(), text.prompt, text.scored);
    }
  }
  return objects;
}

} // namespace

void continue_ids(
    const config::Config& config,
    const distributed::World& world,
    const std::vector<std::int64_t>& prompt,
    GeneratedFile* file) {
  const auto model = load_language_model(config, world);
  const auto objects = config.flags.generation.beam_width > 0
      ? searched(config, model, prompt)
      : chosen(config, model, prompt);
  for (const Json& object : objects) {
    if (file != nullptr) {
      file->add(object);
    } else {
      fmt::print("{}\n", object.dump());
    }
  }
}

} // namespace cairn::cli
