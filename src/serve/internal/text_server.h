#pragma once

#include <cairn/base/log.h>
#include <cairn/generate/text_batch.h>
#include <cairn/text/tokenizer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cairn::serve {

struct TextServerOptions {
  std::string address = "127.0.0.1";
  int port = 5000; ///< 0: any free port
  /// Requests must bring this as a bearer token; empty: everybody may ask.
  std::string api_key{};
  std::string model_name = "cairn";
  generate::TextBatchOptions batch{};
  std::size_t most_texts = 1024; ///< that are computed or wait
  std::int64_t most_new_tokens = 4096;
  /// T5: tokens of a prompt. Its encoder reads a prompt at once, while all
  /// other texts wait.
  std::int64_t most_source_tokens = 2048;
  std::size_t most_connections = 4096;
  std::size_t body_bytes = 8 << 20;
  std::uint64_t seed = 1234;     ///< for requests without one
  generate::Sampling sampling{}; ///< for what requests do not say
  std::chrono::seconds patience{20};
  std::chrono::seconds drain{30}; ///< for texts under way at the end
};

/// Serves texts over HTTP:
///
///   PUT or POST /api        Megatron's text generation server
///   POST /v1/completions    OpenAI's completions, streamed or not
///   GET /v1/models, /health, /metrics (Prometheus)
///   GET /                   a page to try the model
class TextServer {
 public:
  /// Listens, and makes the memory for texts. Throws ConfigError.
  TextServer(
      std::shared_ptr<const text::Tokenizer> tokenizer,
      generate::TextModel model,
      const TextServerOptions& options,
      const Logger& logger);
  ~TextServer();
  TextServer(TextServer&&) noexcept;
  TextServer& operator=(TextServer&&) noexcept;

  int port() const;
  /// Serves until `ended` returns true, and then finishes the texts under way.
  void serve(const std::function<bool()>& ended);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::serve
