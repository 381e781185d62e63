#include "model/small_llama.h"
#include "support/error_text.h"

#include <cairn/base/error.h>
#include <cairn/model/description.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::model::description_test {
namespace {

using ::testing::HasSubstr;

ModelDescription parsed(const std::string& text) {
  return model_description_from_json(text, "x.json");
}

TEST(ModelDescription, GoesThroughJson) {
  const ModelDescription description = small_llama();
  EXPECT_EQ(parsed(to_json(description)), description);
  EXPECT_THAT(to_json(description), HasSubstr("\"family\": \"llama\""));
}

TEST(ModelDescription, LaterMembersGoThroughJsonAndMayBeMissing) {
  ModelDescription description = small_llama();
  description.query_key_norm = true;
  description.query_key_value_bias = true;
  description.parallel_residual = true;
  description.rotary_size = 2;
  const std::string text = to_json(description);
  EXPECT_EQ(parsed(text), description);
  std::string older;
  for (std::size_t begin = 0; begin < text.size();) { // without their lines
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end == std::string::npos ? text.size() : end + 1;
    if (line.find("query_key") == std::string::npos &&
        line.find("parallel_residual") == std::string::npos &&
        line.find("rotary_size") == std::string::npos) {
      older += line;
    }
  }
  // The last line but one may now end with a comma.
  if (const auto comma = older.rfind(",}"); comma != std::string::npos) {
    older.erase(comma, 1);
  }
  EXPECT_EQ(parsed(older), small_llama());
}

TEST(ModelDescription, RefusesAttentionThatCannotBe) {
  const auto error = [](const auto& change) {
    ModelDescription description = small_llama();
    change(description);
    return error_text<CheckpointError>([&] { check(description, "x"); });
  };
  using D = ModelDescription;
  EXPECT_THAT(
      error([](D& d) { d.attention_bias = d.query_key_value_bias = true; }),
      HasSubstr("biases of all of attention, and of a part of it alone"));
  EXPECT_THAT(
      error([](D& d) { d.rotary_size = d.head_size + 1; }),
      HasSubstr("the turned part of a head is"));
  EXPECT_THAT(
      error([](D& d) { d.rotary_size = 1; }),
      HasSubstr("the turned part of a head is 1"));
  EXPECT_THAT(
      error([](D& d) {
        d.norm_place = NormPlace::after;
        d.query_key_norm = true;
      }),
      HasSubstr("a llama with norms of queries and keys"));
}

TEST(ModelDescription, ExpertsGoThroughJson) {
  const ModelDescription description = llama_with_experts();
  EXPECT_EQ(parsed(to_json(description)), description);
  EXPECT_THAT(to_json(description), HasSubstr("\"noise\": \"jitter\""));
  EXPECT_THAT(
      to_json(small_llama()),
      ::testing::Not(HasSubstr("experts"))); // as before experts existed
  EXPECT_EQ(experts_in_layer(description, 0), 0);
  EXPECT_EQ(experts_in_layer(description, 1), 6);
  EXPECT_EQ(experts_in_layer(description, 2), 0);
  EXPECT_EQ(experts_in_layer(description, 3), 0); // this layer has an MLP
}

TEST(ModelDescription, RefusesExpertsThatCannotBe) {
  const auto error = [](const auto& change) {
    ModelDescription description = llama_with_experts();
    change(description);
    return error_text<CheckpointError>([&] { check(description, "x"); });
  };
  using D = ModelDescription;
  EXPECT_THAT(
      error([](D& d) {
        d.family = ModelFamily::t5;
        d.decoder_layers = 2;
      }),
      HasSubstr("2 numbers of experts for stacks of 4 and 2 layers"));
  EXPECT_THAT(
      error([](D& d) { d.experts->interval = 5; }),
      HasSubstr("experts in every 5 of 4 layers"));
  EXPECT_THAT(
      error([](D& d) {
        d.experts->counts = {2, 2, 2};
      }),
      HasSubstr("3 numbers of experts for 2 layers"));
  EXPECT_THAT(
      error([](D& d) { d.experts->counts = {1 << 20}; }),
      HasSubstr("1048576 experts in a layer"));
  EXPECT_THAT(
      error([](D& d) { d.experts->top_k = 0; }),
      HasSubstr("0 experts for a token"));
  EXPECT_THAT(
      error([](D& d) { d.experts->top_k = 7; }),
      HasSubstr("7 of 6 experts for a token"));
  EXPECT_THAT(
      error([](D& d) { d.experts->eval_capacity_factor = 0; }),
      HasSubstr("a capacity factor of 0"));
  EXPECT_THAT(
      error([](D& d) { d.experts->loss_coefficient = -1; }),
      HasSubstr("a loss coefficient of -1"));
}

TEST(ModelDescription, PadsTheVocabulary) {
  EXPECT_EQ(padded_vocabulary(50257, 128), 50304);
  EXPECT_EQ(padded_vocabulary(50304, 128), 50304);
  EXPECT_EQ(with_padding(small_llama()).vocabulary, 16);
}

TEST(ModelFamily, HasAKindAndNames) {
  EXPECT_EQ(kind_of(ModelFamily::llama), ModelKind::gpt);
  EXPECT_EQ(kind_of(ModelFamily::roberta), ModelKind::bert);
  EXPECT_EQ(name_of(ModelFamily::gpt2), "gpt2");
  EXPECT_EQ(name_of(ModelKind::t5), "t5");
  EXPECT_EQ(model_kind_named("bert"), ModelKind::bert);
  EXPECT_EQ(model_kind_named("llama"), std::nullopt);
}

TEST(ModelDescription, RefusesOtherJson) {
  const auto error = [](const std::string& text) {
    return error_text<CheckpointError>([&] { parsed(text); });
  };
  std::string text = to_json(small_llama());
  EXPECT_THAT(error("[1]"), HasSubstr("x.json: a JSON object is wanted"));
  EXPECT_THAT(error("{"), HasSubstr("x.json: not a model's description"));
  EXPECT_THAT(error("{}"), HasSubstr("a key is missing (family)"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return other;
  };
  EXPECT_THAT(
      error(changed("\"llama\"", "\"lama\"")),
      HasSubstr("an unknown value (family: \"lama\")"));
  EXPECT_THAT(
      error(changed("\"layers\": 1,", "\"layers\": 1, \"more\": 2,")),
      HasSubstr("an unknown key (more)"));
  EXPECT_THAT(
      error(changed("\"layers\": 1,", "\"layers\": 1.5,")),
      HasSubstr("a whole number is wanted (layers)"));
  EXPECT_THAT(
      error(changed("\"layers\": 1,", "\"layers\": 1000000000000,")),
      HasSubstr("the number of layers is 1000000000000"));
  EXPECT_THAT(
      error(changed("\"key_value_heads\": 2", "\"key_value_heads\": 3")),
      HasSubstr("the number of key/value heads is 3"));
}

} // namespace
} // namespace cairn::model::description_test
