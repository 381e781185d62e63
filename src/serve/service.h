#pragma once

#include "http/internal/server.h"
#include "serve/beam_queue.h"
#include "serve/metrics.h"
#include "serve/text_queue.h"

#include <cairn/base/log.h>
#include <cairn/generate/generate.h>
#include <cairn/model/description.h>
#include <cairn/text/tokenizer.h>
#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::serve {

/// What the interfaces of a server share: the texts under way, the tokenizer,
/// and the limits. Used by the server's thread alone, unless a member says
/// otherwise.
struct Service {
  std::string model_name;
  model::ModelDescription model;
  std::optional<std::int64_t> begin_token{};
  std::optional<std::int64_t> start_token{}; ///< T5: of the texts it writes
  std::optional<std::int64_t> end_token{};
  std::int64_t most_new_tokens = 0;    ///< of a text
  std::int64_t most_source_tokens = 0; ///< T5: of a prompt
  std::uint64_t seed = 1234;           ///< for requests without one
  generate::Sampling sampling{};       ///< for what requests do not say
  std::uint64_t next_text = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer; ///< any thread
  std::unique_ptr<text::Encoder> encoder;
  Metrics metrics; ///< any thread
  Logger logger;   ///< any thread
  // Last: their threads use the others.
  std::unique_ptr<TextQueue> queue;
  std::unique_ptr<BeamQueue> beams;

  /// True for a T5: its encoder reads the prompt, and its texts do not continue
  /// it.
  bool reads_prompts() const {
    return model::kind_of(model.family) == model::ModelKind::t5;
  }
  /// Tokens of the longest prompt.
  std::int64_t longest_prompt() const;
  /// The tokens of a prompt. Throws ApiError for one that is too long or has
  /// unknown ids.
  std::vector<std::int64_t> encode(std::string_view prompt, bool add_begin);
  void check(const std::vector<std::int64_t>& prompt) const;
  /// Puts the tokens of a prompt where the model takes them.
  generate::Beginning beginning(const std::vector<std::int64_t>& prompt) const {
    return generate::beginning_of(model, prompt, start_token);
  }
  /// The id of a text that is one token, if it is.
  std::optional<std::int64_t> token_of(std::string_view text);
  std::int64_t vocabulary() const {
    return static_cast<std::int64_t>(tokenizer->vocab_size());
  }
};

/// A request under way: says how it was answered, once.
class Answering {
 public:
  Answering(
      Service& service,
      std::string path,
      std::shared_ptr<http::Exchange> exchange);

  void json(int status, const nlohmann::json& body);
  http::Exchange& exchange() { return *exchange_; }
  /// Counts and logs the answer. `texts` and `tokens` are for the log.
  void done(int status, std::size_t texts, std::int64_t tokens);
  void keep_silent() { silent_ = true; }
  double seconds() const;

 private:
  Service& service_;
  std::string path_;
  std::shared_ptr<http::Exchange> exchange_;
  std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  bool silent_ = false;
};

/// JSON as it is sent: bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::json& value);

} // namespace cairn::serve
