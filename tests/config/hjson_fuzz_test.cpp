#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <cairn/config/hjson.h>

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace cairn::config {
namespace {

const std::vector<std::string> seeds{
    R"({"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.9, 0.95]}}})",
    "{ // c\n  train_batch_size: 32 # x\n  zero_optimization: {stage: 3, "
    "offload_param: {device: cpu}}\n}",
    "a: '''\n   text\n  more ''' \n b: [1, 2,, [ {x: 'y'} ] /* z */ ]\n",
    "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, "
    "\"x\\u00e9\\ud83d\\ude00\": null}, \"é\": -1.5e-7}"};

std::string mutated(std::mt19937& random) {
  static const std::string alphabet =
      "{}[]:,'\"\\#/*\n\r\t u0019eE+-.tfn\x01\x7f\xc3\xa9\xff";
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  std::string text = seeds[pick(seeds.size())];
  for (std::size_t edits = 1 + pick(6); edits > 0; --edits) {
    const std::size_t at = pick(text.size() + 1);
    switch (pick(4)) {
      case 0:
        text.insert(at, 1, alphabet[pick(alphabet.size())]);
        break;
      case 1:
        text.erase(at, 1 + pick(4));
        break;
      case 2:
        text = text.substr(0, at);
        break;
      default:
        text.insert(at, text.substr(pick(text.size() + 1), pick(12) + 1));
    }
  }
  return text;
}

// Whatever the bytes: a value or a ConfigError that names a place, nothing
// else.
TEST(HjsonFuzz, MutatedTextsNeverDoHarm) {
  std::mt19937 random(20240607);
  int accepted = 0;
  for (int i = 0; i < 40000; ++i) {
    const std::string text = mutated(random);
    try {
      parse_hjson(text, "x");
      ++accepted;
    } catch (const ConfigError& error) {
      ASSERT_EQ(error.problem().where.substr(0, 2), "x:") << text;
    }
  }
  EXPECT_GT(accepted, 1000); // else the mutations test nothing but rejection
}

TEST(HjsonFuzz, MutatedConfigurationsNeverDoHarm) {
  std::mt19937 random(42);
  for (int i = 0; i < 4000; ++i) {
    try {
      Config::load({.json = mutated(random), .world_size = 2});
    } catch (const ConfigError&) {
    }
  }
}

} // namespace
} // namespace cairn::config
