#include "config/internal/hjson.h"
#include "support/fuzz.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::config::hjson_fuzz_test {
namespace {

const std::vector<std::string> seeds{
    R"({"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.9, 0.95]}}})",
    "{ // c\n  train_batch_size: 32 # x\n  zero_optimization: {stage: 3, "
    "offload_param: {device: cpu}}\n}",
    "a: '''\n   text\n  more ''' \n b: [1, 2,, [ {x: 'y'} ] /* z */ ]\n",
    "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, "
    "\"x\\u00e9\\ud83d\\ude00\": null}, \"é\": -1.5e-7}"};

testing::Fuzz damaged_by(std::uint32_t seed, int runs) {
  testing::Fuzz options{.seeds = seeds, .runs = runs, .seed = seed};
  for (const char piece : std::string("{}[]:,'\"\\#/*\n\r\t u0019eE+-.tfn")) {
    options.pieces.emplace_back(1, piece);
  }
  return options;
}

// Any bytes give a value or a ConfigError that names a place, nothing else.
TEST(HjsonFuzz, MutatedTextsNeverDoHarm) {
  const auto options = damaged_by(20240607, 40000);
  const int accepted = testing::fuzz(options, [](const std::string& text) {
    try {
      parse_hjson(text, "x");
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.problem().where.substr(0, 2), "x:") << text;
      throw;
    }
  });
  // Otherwise the mutations would only test rejection.
  EXPECT_GT(accepted, 1000);
}

TEST(HjsonFuzz, MutatedConfigurationsNeverDoHarm) {
  testing::fuzz(damaged_by(42, 4000), [](const std::string& text) {
    Config::load({.json = text, .world_size = 2});
  });
}

} // namespace
} // namespace cairn::config::hjson_fuzz_test
