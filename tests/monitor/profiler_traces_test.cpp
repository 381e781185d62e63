#include "monitor/internal/profiler_traces.h"
#include "monitor/measures/function_names.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <cairn/nn/module_scope.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <set>
#include <string>

namespace cairn::monitor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

nlohmann::json trace_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

TEST(ProfilerTraces, OneFilePerRangeOfSteps) {
  const testing::TemporaryFolder folder;
  ProfilerTraces traces(
      {.steps = {{2, 3}, {5, 5}}, .folder = folder / "profiling", .rank = 3});
  std::vector<std::filesystem::path> files;
  for (std::int64_t step = 1; step <= 6; ++step) {
    traces.begin(step);
    at::Tensor x = at::ones({3, 7 + step}).requires_grad_(true);
    at::mm(x, at::ones({7 + step, 2})).sum().backward();
    if (const auto file = traces.end(step)) {
      files.push_back(*file);
    }
  }
  ASSERT_EQ(files.size(), 2U);
  EXPECT_THAT(
      files[0].filename().string(),
      ::testing::MatchesRegex(".*_rank3\\.[0-9]+\\.pt\\.trace\\.json"));
  const auto contents = [](const std::filesystem::path& file) {
    std::set<std::string> found;
    const nlohmann::json trace = trace_in(file);
    for (const auto& event : trace.at("traceEvents")) {
      const std::string name = event.value("name", "");
      found.insert(name);
      if (name == "aten::mm") {
        found.insert("mm of " + event.at("args").at("Input Dims").dump());
      }
    }
    return found;
  };
  const auto first = contents(files[0]);
  EXPECT_THAT(
      first,
      IsSupersetOf(
          {"ProfilerStep#2",
           "ProfilerStep#3",
           "aten::mm",
           "mm of [[3,9],[9,2]]",
           "mm of [[3,10],[10,2]]",
           "[memory]"}));
  EXPECT_THAT(first, Not(Contains("mm of [[3,8],[8,2]]")));
  EXPECT_THAT(first, Not(Contains("mm of [[3,11],[11,2]]")));
  EXPECT_THAT(first, Contains(HasSubstr("MmBackward")));
  EXPECT_THAT(contents(files[1]), Contains("ProfilerStep#5"));
}

TEST(ProfilerTraces, TellsModulesAndOperations) {
  const testing::TemporaryFolder folder;
  ProfilerTraces traces({.steps = {{1, 1}}, .folder = folder.path()});
  traces.begin(1);
  const at::Tensor x = at::ones({3, 4}).requires_grad_(true);
  const at::Tensor w = at::ones({4, 5}).requires_grad_(true);
  at::Tensor y;
  {
    const nn::ModuleScope block("blocks.0");
    const nn::ModuleScope part("mlp");
    y = at::mm(x, w);
  }
  y.sum().backward();
  const nlohmann::json trace = trace_in(traces.end(1).value());
  std::multiset<std::string> found;
  std::multiset<std::string> products;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string name = event.value("name", "");
    const std::string category = event.value("cat", "");
    found.insert(category + " " + name);
    if (name == "aten::mm") {
      const auto& about = event.at("args");
      products.insert(
          about.value("Module", "") + " " + about.at("FLOPs").dump());
    }
  }
  // The product itself, and the gradients of both factors.
  const std::string product = "blocks.0.mlp 120";
  EXPECT_EQ(products, (std::multiset<std::string>{product, product, product}));
  EXPECT_EQ(found.count("python_function nn.Module: blocks.0"), 1U);
  EXPECT_EQ(found.count("python_function nn.Module: blocks.0.mlp"), 1U);
}

__attribute__((noinline)) at::Tensor product_of(const at::Tensor& x) {
  at::Tensor y = at::mm(x, at::ones({4, 5}));
  return y.sum();
}

TEST(ProfilerTraces, TellsWhoCallsOperators) {
  const testing::TemporaryFolder folder;
  ProfilerTraces traces({.steps = {{1, 1}}, .folder = folder.path()});
  traces.begin(1);
  product_of(at::ones({3, 4}).requires_grad_(true)).backward();
  const nlohmann::json trace = trace_in(traces.end(1).value());
  int products = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("name", "") == "aten::mm") {
      ++products; // forward, and the gradient of x
      EXPECT_THAT(
          event.at("args").value("Call stack", ""),
          ::testing::MatchesRegex(
              "cairn::monitor::product_of;cairn::monitor::ProfilerTraces_.*"
              ";main"));
    }
  }
  EXPECT_EQ(products, 2);
}

TEST(FunctionNames, AreShort) {
  EXPECT_EQ(
      FunctionNames::shortened(
          "cairn::nn::(anonymous namespace)::f(at::Tensor const&, int)"),
      "cairn::nn::f");
  EXPECT_EQ(
      FunctionNames::shortened("void a::g<std::vector<int>>(int) const"),
      "a::g");
  EXPECT_EQ(
      FunctionNames::shortened("a::B<int>::operator()(int) const"),
      "a::B::operator()");
  EXPECT_EQ(
      FunctionNames::shortened("void a::B::operator()<bool>(bool) const"),
      "a::B::operator()");
  EXPECT_EQ(
      FunctionNames::shortened("unsigned long a::h[abi:cxx11](int)"),
      "a::h");
  EXPECT_EQ(FunctionNames::shortened("main"), "main");
}

TEST(ProfilerTraces, StepsThatNeverEndAreGivenUp) {
  const testing::TemporaryFolder folder;
  {
    ProfilerTraces traces({.steps = {{1, 9}}, .folder = folder.path()});
    traces.begin(1);
  }
  ProfilerTraces traces({.steps = {{1, 1}}, .folder = folder.path()});
  traces.begin(1);
  EXPECT_TRUE(traces.end(1).has_value());
}

TEST(ProfilerTraces, NamesTheFolderThatCannotBeMade) {
  const testing::TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_THAT(
      error_text<DataError>([&] {
        ProfilerTraces({.steps = {{1, 1}}, .folder = folder / "file" / "x"});
      }),
      HasSubstr("cannot make the folder"));
}

} // namespace
} // namespace cairn::monitor
