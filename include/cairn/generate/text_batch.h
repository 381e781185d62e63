#pragma once

#include <cairn/generate/sampling.h>
#include <cairn/generate/text_model.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::generate {

/// A prompt, and how to continue it.
struct TextRequest {
  std::vector<std::int64_t> prompt;
  /// T5: the text that the encoder reads. The prompt is the beginning of what
  /// the decoder writes: the token that every text starts with.
  std::vector<std::int64_t> source{};
  Sampling sampling{};
  std::int64_t most_tokens = 64; ///< after the prompt
  std::uint64_t seed = 1234;
  /// Number of the text among the texts of one seed. Texts of one prompt and
  /// seed differ by it.
  std::uint64_t number = 0;
  std::optional<std::int64_t> end{}; ///< the token that ends the text
  /// More tokens that end the text.
  std::vector<std::int64_t> stops{};
  /// Choose among the ids below this only.
  std::optional<std::int64_t> vocabulary{};
  /// A token that must not follow another one.
  struct Forbidden {
    std::int64_t after = 0;
    std::int64_t token = 0;
  };
  std::optional<Forbidden> forbidden{};
  /// Number of likeliest tokens that are reported with each token.
  int likeliest = 0;
  /// True: the log-probabilities of the prompt's tokens are reported as well.
  bool of_prompt = false;
};

/// A token and its log-probability: the logarithm of the softmax of the model's
/// scores, before the temperature and everything else in Sampling.
struct ScoredToken {
  std::int64_t id = 0;
  float log_probability = 0;
  /// The likeliest tokens at this place with their log-probabilities, best
  /// first.
  std::vector<std::pair<std::int64_t, float>> likeliest{};
};

/// The reason for the end of a text: it chose its end token or another token
/// that ends it; it has as many tokens as allowed, or the model has no more
/// positions; it was cancelled.
enum class Ending { end_token, length, cancelled };

/// What a step added to a text.
struct TextGrowth {
  std::uint64_t text = 0; ///< what TextBatch::add() returned
  /// New tokens. The token that ends the text is the last one of them. Where
  /// TextRequest::of_prompt is set, the first `prompt_tokens` of them are
  /// tokens of the prompt. A prompt comes in pieces, over one or more steps,
  /// and without its first token, which has no probability.
  std::vector<ScoredToken> tokens{};
  std::size_t prompt_tokens = 0;
  std::optional<Ending> ending{}; ///< set when the text has come to its end
};

/// Numbers that hold the weights of linear layers while text is generated.
/// int8: each row of a weight has a factor of its own.
enum class WeightType { fp32, bf16, int8 };

struct TextBatchOptions {
  std::int64_t most_texts = 64;  ///< texts that are computed together
  std::int64_t page_tokens = 16; ///< tokens in a page of keys and values
  /// Tokens that the cache of keys and values has room for; unset: as many as
  /// `most_texts` texts of the greatest length have, up to half of the memory
  /// that is free. T5: as many again for the sources.
  std::optional<std::int64_t> cache_tokens{};
  /// Tokens of prompts that one step computes at most, so that a long prompt
  /// does not hold up the other texts. Unset: 128 on a CPU and 4096 on a GPU.
  std::optional<std::int64_t> step_tokens{};
  /// Compute every text as a whole for each of its tokens, and keep no keys and
  /// values. On a GPU, models with experts are always computed that way.
  bool recompute = false;
  /// Unset: as the model has them. A GPU takes no int8.
  std::optional<WeightType> weights{};
};

/// Continues texts with a GPT, Llama or T5, all of them together, one token of
/// each text in a step. Texts may join and leave between any two steps.
///
///   TextBatch batch(model, {});
///   const std::uint64_t text = batch.add({.prompt = {5, 17, 3}});
///   while (!batch.empty()) {
///     for (const TextGrowth& growth : batch.step()) { … }
///   }
///
/// A text depends on its request and the model alone; on the CPU this holds bit
/// for bit, whatever texts are beside it and however its prompt was cut into
/// pieces. Every token finds room at its experts, whatever the capacity in
/// training.
///
/// Calls must not overlap.
class TextBatch {
 public:
  /// Throws ConfigError for other models than GPT, Llama and T5, and for
  /// options that make no sense.
  TextBatch(TextModel model, const TextBatchOptions& options);
  ~TextBatch();
  TextBatch(TextBatch&&) noexcept;
  TextBatch& operator=(TextBatch&&) noexcept;

  /// Adds a text, which waits in line while the batch or its memory is full.
  /// Returns its number, counted from 0. Throws DataError for a prompt that is
  /// empty, has unknown ids or leaves no room for a token, and ConfigError for
  /// a request that makes no sense.
  std::uint64_t add(TextRequest request);

  /// Ends a text; the next step reports it as cancelled. A text that has come
  /// to its end already is left as it is.
  void cancel(std::uint64_t text);

  bool empty() const; ///< true when step() has nothing to do or to report

  /// Length of the longest text in tokens, prompt included.
  std::int64_t longest() const;
  /// T5: length of the longest source in tokens. 0 for other models.
  std::int64_t longest_source() const;

  /// Computes pieces of new prompts and one token of each other text. Reports
  /// the texts that grew or ended, in the order in which they were added.
  std::vector<TextGrowth> step();

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace cairn::generate
