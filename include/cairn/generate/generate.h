#pragma once

#include <cairn/generate/beam_search.h>
#include <cairn/generate/sampling.h>
#include <cairn/generate/text_batch.h>
#include <cairn/models/transformer.h>
#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cairn::generate {

struct GenerateOptions {
  Sampling sampling{};
  std::int64_t most_tokens = 1024; ///< after the prompt
  /// Most tokens of prompt and continuation, where the model has more
  /// positions.
  std::optional<std::int64_t> longest{};
  std::optional<std::int64_t> end{}; ///< the token that ends a text
  /// T5: the token that a text starts with; unset: the one that the model's
  /// description names.
  std::optional<std::int64_t> start{};
  std::vector<std::int64_t> stops{}; ///< more tokens that end a text
  /// Choose among the ids below this only.
  std::optional<std::int64_t> vocabulary{};
  std::uint64_t seed = 1234;
  std::uint64_t first_text = 0; ///< number of the first of these texts
  /// Number of likeliest tokens that are reported with each token.
  int likeliest = 0;
  /// True: the log-probabilities of the prompt's tokens are reported as well.
  bool of_prompt = false;
  /// Called with every token as it is chosen, except those that end a text.
  std::function<void(std::size_t text, std::int64_t token)> on_token{};
  /// Called with the tokens after the prompt when a text has grown; true ends
  /// the text.
  std::function<bool(std::size_t text, const std::vector<std::int64_t>& so_far)>
      is_complete{};
};

struct Continuation {
  /// Tokens after the prompt, without the token that ended the text.
  std::vector<std::int64_t> tokens;
  bool finished = false;             ///< true when a token ended the text
  std::vector<ScoredToken> scored{}; ///< `tokens` with their log-probabilities
  /// The prompt's tokens from the second one on, where asked for.
  std::vector<ScoredToken> prompt{};
};

/// Continues each prompt, one token at a time, with GPT and Llama; T5 reads the
/// prompt and writes another text. A text
/// depends on its prompt, the seed and its number, not on the texts beside it
/// (on a GPU except for rounding). Leaves the model in eval().
///
/// Throws DataError for a prompt that is empty or leaves no room for a token,
/// ConfigError for options that make no sense and for other models.
std::vector<Continuation> generate(
    models::Transformer& model,
    const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options);

/// Continues each prompt in a batch that nobody else uses meanwhile.
std::vector<Continuation> generate(
    TextBatch& batch,
    const models::ModelDescription& model,
    const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options);

/// Length of the longest text in tokens, prompt included.
std::int64_t longest_text(
    const models::ModelDescription& model,
    const GenerateOptions& options);

/// Throws DataError for a prompt that is empty or leaves no room for a token.
void require_room(
    const std::vector<std::int64_t>& prompt,
    std::int64_t longest);

/// Throws ConfigError for models that do not go from left to right.
void require_left_to_right(const models::ModelDescription& model);
/// Throws ConfigError for models other than GPT, Llama and T5.
void require_writes(const models::ModelDescription& model);

/// The tokens that a model begins with. A GPT or Llama begins with the prompt.
/// A T5 begins with its start token, and its encoder reads the prompt as the
/// source.
struct Beginning {
  std::vector<std::int64_t> prompt;
  std::vector<std::int64_t> source{};
};
/// Throws ConfigError for a T5 whose start token is not known.
Beginning beginning_of(
    const models::ModelDescription& model,
    const std::vector<std::int64_t>& prompt,
    std::optional<std::int64_t> start);

/// What TextGenerator does besides choosing tokens.
struct TextGeneratorOptions {
  /// Strings that end a text. The text ends before the first of them.
  std::vector<std::string> stops{};
  /// Search for the likeliest text with so many beams; 0: choose one token at a
  /// time. A search reports a text when it is complete, and chooses no token at
  /// random.
  std::int64_t beam_width = 0;
  double length_penalty = 1; ///< see BeamOptions
  TextBatchOptions batch{};
};

struct GeneratedText {
  std::string text;        ///< the text after the prompt, in UTF-8
  std::int64_t length = 0; ///< in tokens
  /// True when the model chose a token that ends the text, or wrote a string
  /// that does.
  bool finished = false;
  /// The tokens with their log-probabilities; a beam search has none.
  std::vector<ScoredToken> tokens{};
  /// The prompt's tokens from the second one on, where asked for.
  std::vector<ScoredToken> prompt{};
};

/// Generates text from text.
///
///   TextGenerator storyteller(tokenizer, model, {.sampling = {.top_p = 0.9}});
///   storyteller.after({storyteller.prompt("Once upon a time")})[0].text
///
/// Ids that the tokenizer does not have are never chosen. A text ends at the
/// token that the options name, else at the model's end token, else at the
/// tokenizer's end of document.
class TextGenerator {
 public:
  using Tokens = std::vector<std::int64_t>;
  /// Called when text number `text` has grown by a token.
  using OnGrowth = std::function<void(std::size_t text, const Tokens& so_far)>;

  /// Throws ConfigError for other models than GPT, Llama and T5.
  TextGenerator(
      std::shared_ptr<const text::Tokenizer> tokenizer,
      TextModel model,
      GenerateOptions options,
      TextGeneratorOptions more = {});

  /// The tokens of a text, without the end that some tokenizers put after every
  /// text, and with the begin token that a Llama was trained with. For a T5
  /// that names its end token, the text ends with it. Throws DataError if
  /// nothing can follow them.
  Tokens prompt(std::string_view text);
  /// The prompt of a text from nothing: the model's begin token, or the token
  /// between documents. Throws DataError if there is neither, and for a T5.
  Tokens no_prompt() const;
  /// The text of `more` tokens after a prompt. Its last character may lack
  /// bytes.
  std::string decode(const Tokens& prompt, const Tokens& more) const;
  /// Length of the longest text in tokens, prompt included.
  std::int64_t longest() const;

  /// Generates one text after each prompt, computed together. The texts of all
  /// calls are numbered in sequence, so a text is the same however the calls
  /// divide them.
  std::vector<GeneratedText> after(
      const std::vector<Tokens>& prompts,
      const OnGrowth& on_growth = {});

 private:
  bool reads() const; ///< the prompt with an encoder, as T5 does
  std::optional<std::int64_t> begin_token() const;
  std::vector<Continuation> search(
      const std::vector<Tokens>& prompts,
      const OnGrowth& on_growth);
  /// Where the first string that ends a text begins in it.
  std::size_t end_of(std::string_view text) const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<text::Encoder> encoder_;
  TextModel model_;
  GenerateOptions options_;
  TextGeneratorOptions more_;
  std::variant<TextBatch, BeamSearch> decoding_;
};

} // namespace cairn::generate
