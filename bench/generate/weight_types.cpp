#include <cairn/base/file.h>
#include <cairn/generate/text_batch.h>
#include <cairn/models/load_model.h>
#include <cairn/text/tokenizer.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// weight_type_bench CHECKPOINT TOKENIZER TEXT: the perplexity of a text with
// weights in fp32, bf16 and int8. The text is cut into stretches as long as the
// model has positions, of which the first token is not counted.

namespace {

using namespace cairn; // NOLINT

double perplexity(
    const std::shared_ptr<models::Transformer>& model,
    const std::vector<std::int64_t>& tokens,
    generate::WeightType type) {
  generate::TextBatchOptions options;
  options.weights = type;
  options.step_tokens = 512;
  generate::TextBatch batch(model, options);
  const std::int64_t stretch = model->description().positions - 1;
  for (std::int64_t i = 0; i + 1 < std::ssize(tokens); i += stretch) {
    const std::int64_t end = std::min(i + stretch, std::ssize(tokens));
    generate::TextRequest request{
        .prompt = {tokens.begin() + i, tokens.begin() + end},
        .sampling = {.greedy = true},
        .most_tokens = 1};
    request.of_prompt = true;
    batch.add(std::move(request));
  }
  double sum = 0;
  std::int64_t count = 0;
  while (!batch.empty()) {
    for (const generate::TextGrowth& growth : batch.step()) {
      for (std::size_t i = 0; i < growth.prompt_tokens; ++i) {
        sum += double{growth.tokens[i].log_probability};
        ++count;
      }
    }
  }
  return std::exp(-sum / static_cast<double>(count));
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "weight_type_bench CHECKPOINT TOKENIZER TEXT\n");
    return 2;
  }
  const auto model = models::load_model(argv[1]);
  text::TokenizerOptions options;
  options.model_file = argv[2];
  const auto tokenizer = text::load_tokenizer(options);
  std::vector<text::TokenId> ids;
  tokenizer->make_encoder()->encode(read_file(argv[3], 1 << 24), ids);
  const std::vector<std::int64_t> tokens(ids.begin(), ids.end());
  fmt::print("{} tokens\n", tokens.size());
  for (const auto& [name, type] :
       std::vector<std::pair<const char*, generate::WeightType>>{
           {"fp32", generate::WeightType::fp32},
           {"bf16", generate::WeightType::bf16},
           {"int8", generate::WeightType::int8}}) {
    fmt::print("{} {:.4f}\n", name, perplexity(model, tokens, type));
  }
}
