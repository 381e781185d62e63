// The messages of `cairn probe` about impossible requests.

#include "pretrain/internal/probe.h"
#include "pretrain/probing.h"
#include "support/error_text.h"
#include "support/golden_tensors.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/checkpoints/safetensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cairn::pretrain::probe_refusals_test {
namespace {

using namespace probing;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::TemporaryFolder;

/// A mistake in a probe, and the message about it.
struct Wrong {
  std::string message;
  std::function<void(Tensors&)> input = [](Tensors&) {};
  Words flags{};
  int ranks = 1;
  std::string model = "gpt2";
  bool train = false;
  std::string config{};
};

std::vector<Wrong> wrongs() {
  const auto without = [](const std::string& name) {
    return [name](Tensors& io) { io.erase(name); };
  };
  const auto with = [](const std::string& name, const at::Tensor& values) {
    return [name, values](Tensors& io) { io[name] = values; };
  };
  const auto filled = [](const std::string& name, std::int64_t value) {
    return [name, value](Tensors& io) { io.at(name)[1][5] = value; };
  };
  const at::Tensor zeros = at::zeros({3, 24}, at::kLong);
  return {
      {"(input_ids): there is no such tensor in the input",
       without("input_ids")},
      {"(labels): there is no such tensor in the input", without("labels")},
      {.message = "(next_sentence_label): there is no such tensor in the input",
       .input = without("next_sentence_label"),
       .model = "bert"},
      {"(input_ids): of a wrong type (Float)",
       with("input_ids", at::zeros({3, 24}))},
      {"(input_ids): tokens are [rows, tokens] ([24])",
       with("input_ids", at::zeros({24}, at::kLong))},
      {"(input_ids): a dimension for steps ([2, 3, 24]); add --train",
       with("input_ids", at::zeros({2, 3, 24}, at::kLong))},
      {"(input_ids): an empty batch ([0, 24])",
       with("input_ids", at::zeros({0, 24}, at::kLong))},
      {"(labels): does not fit input_ids ([3, 23] instead of [3, 24])",
       with("labels", at::zeros({3, 23}, at::kLong))},
      {"(input_ids): a value out of range (512, where the model takes 0 to "
       "511)",
       filled("input_ids", 512)},
      {"(input_ids): a value out of range (-1, where", filled("input_ids", -1)},
      {"(labels): a value out of range (-7, where the model takes 0 to 511 and "
       "-100)",
       filled("labels", -7)},
      {"(labels): no label asks for anything",
       with("labels", at::full({3, 24}, -100, at::kLong))},
      {"(input_id): a tensor that the gpt2 of the checkpoint has no use for; "
       "did you mean \"input_ids\"?",
       with("input_id", zeros)},
      {"(token_type_ids): a tensor that the gpt2",
       with("token_type_ids", zeros)},
      {"(logits): a result of another shape",
       with("logits", at::zeros({3, 24, 500}))},
      {"(attention_mask): a row whose first token is masked sees nothing",
       with("attention_mask", zeros)},
      {.message = "(attention_mask): a row without any text",
       .input = with("attention_mask", zeros),
       .model = "bert"},
      {.message = "(labels): does not fit input_ids ([3, 0] instead of",
       .input = with("labels", at::zeros({3, 0}, at::kLong)),
       .model = "t5_relu"},
      {"(input_ids): longer than the model has positions for (65 tokens, 64 "
       "positions)",
       [](Tensors& io) {
         io = {
             {"input_ids", at::zeros({1, 65}, at::kLong)},
             {"labels", at::zeros({1, 65}, at::kLong)}};
       }},
      {.message = "--lr: nothing is trained; add --train",
       .flags = {"--lr", "1"}},
      {.message = "probe does not act on these flags (--num-layers)",
       .flags = {"--num-layers", "2"}},
      {.message = "the rows of the batch do not divide over the ranks (3 over "
                  "2)",
       .ranks = 2},
      {.message = "--micro-batch-size: a rank's rows do not divide into micro "
                  "batches (3 rows, 2 at once)",
       .flags = {"--micro-batch-size", "2"}},
      {.message = "the model's heads do not divide over the ranks (4 over 3)",
       .flags = {"--tensor-model-parallel-size", "3"},
       .ranks = 3,
       .model = "llama"},
      {.message = "a pipeline has at most as many stages as the model layers "
                  "(3; 2 layers); use at most 2 stages",
       .flags = {"--pipeline-model-parallel-size", "3"},
       .ranks = 3,
       .model = "bert"},
      {.message = "the tokens of a row do not divide over the ranks (23 over "
                  "2)",
       .input =
           [](Tensors& io) {
             for (auto& [name, values] : io) {
               values = values.narrow(1, 0, 23);
             }
           },
       .flags = tensor2 + Words{"--sequence-parallel"},
       .ranks = 2},
      {.message = "--train: training needs an optimizer",
       .input = without("logits"),
       .train = true},
      {.message = "the batch of the configuration is not what the input has",
       .input = without("logits"),
       .train = true,
       .config = R"({"train_batch_size": 8,
           "optimizer": {"type": "Adam", "params": {"lr": 1}}})"},
  };
}

TEST(Probe, RefusesWhatIsWrongBeforeAnythingIsAllocated) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 1}, [&](const distributed::World&) {
    for (const Wrong& wrong : wrongs()) {
      Tensors io = testing::golden_tensors(
          golden("models/" + wrong.model + "/io.safetensors"));
      wrong.input(io);
      for (auto& [name, values] : io) {
        values = values.contiguous();
      }
      checkpoints::write_safetensors(folder / "in", io);
      ProbeOptions options{
          .load = golden("models/" + wrong.model),
          .input = folder / "in",
          .output = folder / "out"};
      options.train = wrong.train;
      options.config = {.flags = wrong.flags, .world_size = wrong.ranks};
      if (!wrong.config.empty()) {
        options.config.file = folder.write("ds.json", wrong.config);
      }
      EXPECT_THAT(
          error_text<Error>([&] { Probe probe(options); }),
          HasSubstr(wrong.message));
    }
  });
}

TEST(Probe, RefusesFilesThatCannotBe) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 1}, [&](const distributed::World&) {
    const fs::path io = golden("models/gpt2/io.safetensors");
    const auto refusal = [&](const fs::path& load,
                             const fs::path& input,
                             const fs::path& output) {
      return error_text<Error>([&] {
        Probe probe({.load = load, .input = input, .output = output});
      });
    };
    const fs::path gpt2 = golden("models/gpt2");
    const fs::path out = folder / "out";
    const std::string text = folder.write("text", "no safetensors at all");
    EXPECT_THAT(refusal(gpt2, text, out), HasSubstr(text));
    EXPECT_THAT(
        refusal(gpt2, folder / "absent", out),
        HasSubstr("No such file"));
    EXPECT_THAT(
        refusal(folder / "absent", io, out),
        HasSubstr("there is no such file or folder"));
    EXPECT_THAT(
        refusal(folder.path(), io, out),
        HasSubstr("no checkpoint that we know"));
    EXPECT_THAT(
        refusal(gpt2, io, folder / "no/such/folder"),
        HasSubstr("No such file or directory"));
    EXPECT_THAT(
        refusal(gpt2, io, folder.path()),
        HasSubstr("the output is a folder"));
    EXPECT_THAT(
        refusal(gpt2, io, io),
        HasSubstr("the output would replace the input"));
    EXPECT_FALSE(fs::exists(out));
  });
}

} // namespace
} // namespace cairn::pretrain::probe_refusals_test
