#include "cli/generate/prompt_ids.h"

#include "cli/generate/generate_flags.h"
#include "cli/generate/load_generator.h"

#include <cairn/base/error.h>
#include <cairn/generate/text_batch.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
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

void continue_ids(
    const config::Config& config,
    const distributed::World& world,
    const std::vector<std::int64_t>& prompt,
    GeneratedFile* file) {
  using Json = nlohmann::ordered_json;
  const config::GenerationFlags& flags = config.flags.generation;
  const auto model = load_language_model(config, world);
  generate::TextBatch batch(model, batch_options(config));
  generate::GenerateOptions options = generate_options(config);
  options.end = model->description().end_token;
  const auto count =
      static_cast<std::size_t>(std::max<std::int64_t>(1, flags.num_samples));
  const auto texts = generate::generate(
      batch,
      model->description(),
      std::vector(count, prompt),
      options);
  for (const generate::Continuation& text : texts) {
    Json object{
        {"prompt_ids", prompt},
        {"ids", text.tokens},
        {"finished", text.finished}};
    if (flags.return_log_probs || flags.top_n_logprobs > 0) {
      add_log_probs(object, text.prompt, text.scored);
    }
    if (file != nullptr) {
      file->add(object);
    } else {
      fmt::print("{}\n", object.dump());
    }
  }
}

} // namespace cairn::cli
