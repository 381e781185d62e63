// Descriptions of clusters: those that come with Cairn, and broken ones.

#include <cairn/base/error.h>
#include <cairn/plan/cluster.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <string>

namespace cairn::plan {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json valid() {
  return Json::parse(R"({
    "name": "two boxes", "about": "for a test", "gpus_per_node": 4, "nodes": 2,
    "gpu": {"name": "G", "memory_gb": 10, "tflops": 100, "bandwidth_gb_per_s": 1000, "matmul_share": 0.5},
    "host": {"memory_gb": 64, "copy_gb_per_s": 10, "adam_billion_per_s": 1},
    "levels": [{"name": "inside", "ranks": 4, "gb_per_s": 100, "microseconds": 5},
               {"name": "outside", "ranks": 8, "gb_per_s": 10, "microseconds": 10}]})");
}

std::string problem_with(const Json& json) {
  try {
    cluster_from_json(json.dump(), "boxes.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(PlanCluster, ReadsADescription) {
  const Cluster cluster = cluster_from_json(valid().dump(), "boxes.json");
  EXPECT_EQ(cluster.name, "two boxes");
  EXPECT_EQ(cluster.gpu.memory_bytes, 10e9);
  EXPECT_EQ(cluster.gpu.flops, 100e12);
  EXPECT_EQ(cluster.gpu.flops_8bit, 0);
  EXPECT_EQ(cluster.host.nvme_bytes, 0);
  ASSERT_EQ(cluster.levels.size(), 2U);
  EXPECT_EQ(cluster.levels[1].bandwidth, 10e9);
  EXPECT_DOUBLE_EQ(cluster.levels[1].latency, 10e-6);
}

TEST(PlanCluster, TakesMeasuredSpeedsInPlaceOfADataSheets) {
  nlohmann::json boxes = valid();
  boxes["gpu"]["measured"] = {
      {"products", {{0.001, 10}, {0.1, 1000}}},
      {"attention", {{1, 5}}},
      {"traffic", {{0.001, 20}, {1, 10}}},
      {"passes", 2},
      {"operator_microseconds", 3}};
  const MeasuredSpeeds measured =
      cluster_from_json(boxes.dump(), "boxes.json").gpu.measured;
  EXPECT_DOUBLE_EQ(speed_at(measured.products, 1e6), 10e9);
  EXPECT_DOUBLE_EQ(speed_at(measured.products, 1e7), 100e9);
  EXPECT_DOUBLE_EQ(speed_at(measured.products, 1e9), 1000e9) << "the last one";
  EXPECT_DOUBLE_EQ(speed_at(measured.traffic, 1), 20e9) << "the first one";
  EXPECT_DOUBLE_EQ(measured.operator_seconds, 3e-6);
  boxes["gpu"]["measured"]["products"] = {{0.1, 10}, {0.1, 20}};
  EXPECT_THAT(
      [&] { cluster_from_json(boxes.dump(), "boxes.json"); },
      ::testing::ThrowsMessage<ConfigError>(
          ::testing::HasSubstr("gpu.measured.products")));
}

TEST(PlanCluster, TakesSpeedsOfProductsAtEverySize) {
  nlohmann::json boxes = valid();
  const nlohmann::json grid{{{1, 2}, {3, 4}}, {{5, 6}, {7, 16}}};
  boxes["gpu"]["measured"] = {
      {"day", "2026-11-20"},
      {"sustained", 0.9},
      {"products_16bit",
       {{"tokens", {10, 1000}},
        {"widths", {1, 4}},
        {"forward", grid},
        {"input_gradient", grid},
        {"weight_gradient", grid}}},
      {"traffic", {{1, 10}}},
      {"passes", 2}};
  const MeasuredSpeeds measured =
      cluster_from_json(boxes.dump(), "boxes.json").gpu.measured;
  EXPECT_TRUE(measured.products.empty());
  EXPECT_FALSE(measured.products_8bit);
  EXPECT_EQ(measured.sustained, 0.9);
  ASSERT_TRUE(measured.products_16bit);
  const auto at = [&](double tokens, double out, double in) {
    return speed_at(
        measured.products_16bit->weight_gradient,
        std::array{tokens, out, in});
  };
  constexpr double rounding = 1;
  EXPECT_NEAR(at(10, 1, 4), 2e12, rounding);
  EXPECT_NEAR(at(1000, 4, 1), 7e12, rounding);
  EXPECT_NEAR(at(1000, 4, 4), 16e12, rounding);
  EXPECT_NEAR(at(1e6, 100, 100), 16e12, rounding) << "the largest";
  EXPECT_NEAR(at(1, 0.1, 1), 1e12, rounding) << "the smallest";
  EXPECT_NEAR(at(10, 4, 2), std::sqrt(3e12 * 4e12), rounding);
  const double product = 2.0 * 3 * 4 * 5 * 6 * 7 * 16;
  EXPECT_NEAR(at(100, 2, 2), 1e12 * std::pow(product, 1.0 / 8), rounding);
  for (const nlohmann::json& wrong :
       {nlohmann::json{{{1, 2}, {3, 4}}},
        {{{1, 2}, {3, 4}}, {{5, 6}, {7}}},
        {{{1, 2}, {3, 4}}, {{5, 6}, {7, 0}}},
        {{{1, 2}, {3, 4}}, {{5, 6}, 7}}}) {
    boxes["gpu"]["measured"]["products_16bit"]["forward"] = wrong;
    EXPECT_THAT(
        [&] { cluster_from_json(boxes.dump(), "boxes.json"); },
        ::testing::ThrowsMessage<ConfigError>(
            ::testing::HasSubstr("gpu.measured.products_16bit.forward")))
        << wrong;
  }
  boxes["gpu"]["measured"]["sustained"] = 1.1;
  EXPECT_THAT(
      [&] { cluster_from_json(boxes.dump(), "boxes.json"); },
      ::testing::ThrowsMessage<ConfigError>(
          ::testing::HasSubstr("gpu.measured.sustained")));
  boxes["gpu"]["measured"]["sustained"] = 1;
  boxes["gpu"]["measured"]["products_16bit"]["tokens"] = {10, 10};
  EXPECT_THAT(
      [&] { cluster_from_json(boxes.dump(), "boxes.json"); },
      ::testing::ThrowsMessage<ConfigError>(
          ::testing::HasSubstr("gpu.measured.products_16bit.tokens")));
}

TEST(PlanCluster, KnowsThoseThatComeWithIt) {
  for (const std::string& name : cluster_names()) {
    SCOPED_TRACE(name);
    const Cluster cluster = find_cluster(name);
    EXPECT_GT(cluster.gpu.flops, 1e10);
    EXPECT_EQ(cluster.levels.front().ranks % cluster.gpus_per_node, 0);
  }
  EXPECT_THAT(
      cluster_names(),
      ::testing::IsSupersetOf(
          {"dgx2-v100",
           "v100-16gb-40g",
           "selene-a100",
           "a100-40gb",
           "dgx-h100",
           "h200",
           "laptop"}));
}

TEST(PlanCluster, NamesWhatIsWrong) {
  Json json = valid();
  json["gpu"].erase("tflops");
  EXPECT_THAT(
      problem_with(json),
      HasSubstr("boxes.json.gpu: the key \"tflops\" is missing"));
  json = valid();
  json["gpu"]["tflop"] = 3;
  EXPECT_THAT(problem_with(json), HasSubstr("did you mean \"tflops\"?"));
  json = valid();
  json["levels"][1]["ranks"] = 6;
  EXPECT_THAT(problem_with(json), HasSubstr("6 and 4"));
  json = valid();
  json["levels"] = Json::array();
  EXPECT_THAT(problem_with(json), HasSubstr("boxes.json.levels"));
  json = valid();
  json["gpu"]["memory_gb"] = "80";
  EXPECT_THAT(problem_with(json), HasSubstr("boxes.json.gpu.memory_gb"));
  json = valid();
  json["gpus_per_node"] = 2.5;
  EXPECT_THAT(problem_with(json), HasSubstr("no whole number"));
  json = valid();
  json["host"] = 3;
  EXPECT_THAT(problem_with(json), HasSubstr("is no JSON object"));
  EXPECT_THROW(cluster_from_json("{", "x"), ConfigError);
  EXPECT_THROW(cluster_from_json("[]", "x"), ConfigError);
  EXPECT_THROW(find_cluster("dgx-h1000"), ConfigError);
}

/// Every prefix of a description, and every byte replaced: an error or a
/// cluster, never a crash.
TEST(PlanCluster, SurvivesBrokenFiles) {
  const std::string whole = valid().dump();
  int refused = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    for (const char other : {'\0', '9', '}', '-'}) {
      std::string text = whole;
      text[size] = other;
      for (const std::string& each : {whole.substr(0, size), text}) {
        try {
          cluster_from_json(each, "x");
        } catch (const ConfigError&) {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()));
}

} // namespace
} // namespace cairn::plan
