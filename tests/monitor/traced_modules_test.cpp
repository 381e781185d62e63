#include "monitor/measures/traced_modules.h"
#include "monitor/files/noted_trace.h"
#include "monitor/measures/operator_flops.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cairn::monitor::traced_modules_test {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

/// The modules of events, by id.
std::map<std::uint64_t, std::string> modules(std::vector<TracedEvent> events) {
  std::map<std::uint64_t, std::string> found;
  for (const auto& [id, note] : trace_notes(std::move(events))) {
    found[id] = note.module;
  }
  return found;
}

TEST(TracedModules, AreTheScopesAroundAnOperator) {
  const auto found = modules(
      {{.id = 4, .name = "aten::mm", .thread = 1, .begin = 30, .end = 40},
       {.id = 1, .name = "nn.Module: a", .thread = 1, .begin = 10, .end = 50},
       {.id = 2, .name = "nn.Module: b", .thread = 1, .begin = 20, .end = 45},
       {.id = 3, .name = "aten::t", .thread = 1, .begin = 20, .end = 25},
       {.id = 5, .name = "aten::add", .thread = 1, .begin = 45, .end = 50},
       {.id = 6, .name = "aten::sum", .thread = 1, .begin = 50, .end = 60},
       {.id = 7, .name = "aten::mm", .thread = 2, .begin = 30, .end = 40}});
  EXPECT_EQ(
      found,
      (std::map<std::uint64_t, std::string>{
          {1, "a"},
          {2, "a.b"},
          {3, "a.b"},
          {4, "a.b"},
          {5, "a"}}));
}

TEST(TracedModules, ABackwardPassIsOfTheModuleThatMadeItsNode) {
  std::vector<TracedEvent> events{
      {.id = 1,
       .name = "nn.Module: a",
       .thread = 1,
       .begin = 0,
       .end = 20,
       .sequence = 7},
      {.id = 2,
       .name = "aten::mm",
       .thread = 1,
       .begin = 5,
       .end = 10,
       .sequence = 8},
      {.id = 3,
       .name = "nn.Module: b",
       .thread = 1,
       .begin = 20,
       .end = 30,
       .sequence = 9},
      {.id = 4,
       .name = "aten::sum",
       .thread = 1,
       .begin = 30,
       .end = 40,
       .sequence = 11}};
  // One node made by a function of our own at the start of "a" (7), one by mm
  // (8), two in "b" (9, 10), one by sum (11); each calls an operator.
  for (std::uint64_t node = 7; node <= 11; ++node) {
    const std::uint64_t begin = 10 * node;
    events.push_back(
        {.id = 10 * node,
         .name = "Backward",
         .thread = 2,
         .begin = begin,
         .end = begin + 10,
         .sequence = static_cast<std::int64_t>(node),
         .forward_thread = 1});
    events.push_back(
        {.id = 10 * node + 1,
         .name = "aten::mm",
         .thread = 2,
         .begin = begin + 1,
         .end = begin + 2});
  }
  EXPECT_EQ(
      modules(events),
      (std::map<std::uint64_t, std::string>{
          {1, "a"},
          {2, "a"},
          {3, "b"},
          {70, "a"},
          {71, "a"},
          {80, "a"},
          {81, "a"},
          {90, "b"},
          {91, "b"},
          {100, "b"},
          {101, "b"}}));
}

std::shared_ptr<const std::string> stack(const char* text) {
  return std::make_shared<const std::string>(text);
}

/// The call stacks of events, by id.
std::map<std::uint64_t, std::string> stacks(std::vector<TracedEvent> events) {
  std::map<std::uint64_t, std::string> found;
  for (const auto& [id, note] : trace_notes(std::move(events))) {
    if (note.stack) {
      found[id] = *note.stack;
    }
  }
  return found;
}

TEST(TracedModules, CallStacksAreThoseOfTheOperatorAround) {
  std::vector<TracedEvent> events{
      {.id = 1,
       .name = "aten::linear",
       .thread = 1,
       .begin = 10,
       .end = 50,
       .sequence = 3,
       .is_operator = true},
      {.id = 2,
       .name = "aten::mm",
       .thread = 1,
       .begin = 20,
       .end = 45,
       .is_operator = true},
      {.id = 3,
       .name = "aten::relu",
       .thread = 1,
       .begin = 50,
       .end = 60,
       .is_operator = true},
      {.id = 4, .name = "nn.Module: a", .thread = 1, .begin = 70, .end = 90},
      {.id = 5,
       .name = "aten::add",
       .thread = 1,
       .begin = 75,
       .end = 80,
       .is_operator = true},
      {.id = 6,
       .name = "LinearBackward0",
       .thread = 2,
       .begin = 100,
       .end = 120,
       .sequence = 3,
       .forward_thread = 1,
       .is_operator = true},
      {.id = 7,
       .name = "aten::mm",
       .thread = 2,
       .begin = 105,
       .end = 110,
       .is_operator = true}};
  set_call_stacks(
      events,
      {{1, "aten::linear", stack("f;main")},
       {2, "LinearBackward0", nullptr},
       {1, "aten::relu", stack("g;main")},
       {1, "aten::sub", stack("h;main")}}); // not what the trace has
  EXPECT_EQ(
      stacks(std::move(events)),
      (std::map<std::uint64_t, std::string>{
          {1, "f;main"},
          {2, "f;main"},
          {3, "g;main"},
          {6, "f;main"},
          {7, "f;main"}}));
}

TEST(TracedModules, AParameterNamesTheModuleWithinItsScope) {
  std::vector<TracedEvent> events{
      {.id = 1, .name = "nn.Module: a", .thread = 1, .begin = 0, .end = 50},
      {.id = 2,
       .name = "aten::linear",
       .thread = 1,
       .begin = 10,
       .end = 20,
       .sequence = 1,
       .owner = "a.up"},
      {.id = 3, .name = "aten::mm", .thread = 1, .begin = 12, .end = 18},
      {.id = 4,
       .name = "aten::relu",
       .thread = 1,
       .begin = 20,
       .end = 25,
       .sequence = 2},
      // A weight of another module, as the head that is tied has one.
      {.id = 5,
       .name = "aten::linear",
       .thread = 1,
       .begin = 30,
       .end = 40,
       .owner = "embedding"},
      {.id = 6,
       .name = "LinearBackward",
       .thread = 2,
       .begin = 60,
       .end = 70,
       .sequence = 1,
       .forward_thread = 1}};
  EXPECT_EQ(
      modules(events),
      (std::map<std::uint64_t, std::string>{
          {1, "a"},
          {2, "a.up"},
          {3, "a.up"},
          {4, "a"},
          {5, "a"},
          {6, "a.up"}}));
}

TEST(TracedModules, ANodeMadeAfterAScopeIsNotTheScopes) {
  std::vector<TracedEvent> events{
      {.id = 1,
       .name = "nn.Module: a",
       .thread = 1,
       .begin = 0,
       .end = 20,
       .sequence = 7},
      {.id = 2,
       .name = "nn.Module: b",
       .thread = 1,
       .begin = 5,
       .end = 20,
       .sequence = 8},
      // Node 9 is made between the scopes: the checkpoint of "c".
      {.id = 3,
       .name = "nn.Module: c",
       .thread = 1,
       .begin = 25,
       .end = 30,
       .sequence = 10},
      {.id = 4,
       .name = "Backward",
       .thread = 2,
       .begin = 40,
       .end = 60,
       .sequence = 9,
       .forward_thread = 1},
      {.id = 5, .name = "nn.Module: c", .thread = 2, .begin = 45, .end = 50}};
  std::vector<TracedEvent> others = events;
  set_scope_ends(
      events,
      {{.thread = 1, .name = "nn.Module: b", .sequence = 9},
       {.thread = 1, .name = "nn.Module: a", .sequence = 9},
       {.thread = 2, .name = "nn.Module: c", .sequence = 11},
       {.thread = 1, .name = "nn.Module: c", .sequence = 10}});
  EXPECT_EQ(
      modules(events),
      (std::map<std::uint64_t, std::string>{
          {1, "a"},
          {2, "a.b"},
          {3, "c"},
          {5, "c"}}));
  // Ends that do not match are not believed.
  set_scope_ends(others, {{.thread = 1, .name = "nn.Module: b"}});
  EXPECT_EQ(modules(others)[5], "a.b.c");
}

TEST(OperatorFlops, AreThoseOfTheProducts) {
  EXPECT_EQ(operator_flops("cairn::product", {{4, 3, 5}, {5, 7}, {}}), 840U);
  EXPECT_EQ(
      operator_flops("cairn::product_into", {{3, 7}, {3, 5}, {5, 7}, {}}),
      210U);
  EXPECT_EQ(
      operator_flops("cairn::grouped_product", {{6, 5}, {2, 7, 5}, {}}),
      420U);
  const std::vector<std::int64_t> query{2, 3, 8, 4};
  const std::vector<std::int64_t> key{2, 3, 16, 4};
  EXPECT_EQ(
      operator_flops(
          "aten::_scaled_dot_product_flash_attention_for_cpu",
          {query, key, key}),
      2U * 2 * (2 * 3 * 8 * 16 * 4));
  EXPECT_EQ(
      operator_flops(
          "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
          {query, query, key, key}),
      5U * 2 * (2 * 3 * 8 * 16 * 4));
  const std::vector<std::int64_t> own_query{2, 8, 3, 4};
  const std::vector<std::int64_t> own_key{2, 16, 3, 4};
  EXPECT_EQ(
      operator_flops("cairn::attention", {own_query, own_key}),
      2U * 2 * (2 * 3 * 8 * 16 * 4));
  EXPECT_EQ(
      operator_flops("cairn::attention_backward", {own_query, own_key}),
      5U * 2 * (2 * 3 * 8 * 16 * 4));
  EXPECT_EQ(operator_flops("aten::relu", {{4, 4}}), 0U);
  EXPECT_EQ(operator_flops("cairn::product", {{4}, {4}}), 0U);
  EXPECT_EQ(operator_flops("cairn::product", {}), 0U);
}

constexpr const char* trace = R"(
  {
    "schemaVersion": 1,
  "traceEvents": [
  {
    "ph": "X", "cat": "user_annotation", "name": "nn.Module: a", "pid": 1, "tid": 1,
    "ts": 1.5, "dur": 2.5,
    "args": {
      "External id": 1,"Record function id": 0, "Ev Idx": 0
    }
  },
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
    "ts": 1.5, "dur": 2.5,
    "args": {
      "External id": 12,"Record function id": 0, "Ev Idx": 1
    }
  },
  {
    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 1,
    "ts": 1.5, "dur": 2.5,
    "args": {
      "External id": 12, "device": 0
    }
  },
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::t", "pid": 1, "tid": 1,
    "ts": 1.5, "dur": 2.5,
    "args": {
      "External id": 120
    }
  },
  {
    "ph": "s", "id": 5, "pid": 1, "tid": 1, "ts": 1.5,
    "cat": "fwdbwd", "name": "fwdbwd"
  }
  ],
  "traceName": "x"
})";

TEST(NotedTrace, HasModulesAndOperations) {
  const TemporaryFolder folder;
  const auto file = folder.write("t.json", trace);
  const std::string name = "a.\"b\"";
  add_notes(
      file,
      {{1, {.module = name, .scope = TraceNote::Scope{9}}},
       {12, {.module = name, .flops = 77, .stack = stack("f;\"g\"")}}});
  const auto before = nlohmann::json::parse(trace)["traceEvents"];
  const auto after = nlohmann::json::parse(std::ifstream(file));
  EXPECT_EQ(after["traceName"], "x");
  const auto& events = after["traceEvents"];
  ASSERT_EQ(events.size(), before.size());
  EXPECT_EQ(events[0]["cat"], "python_function");
  EXPECT_EQ(events[0]["name"], "nn.Module: " + name);
  EXPECT_EQ(events[0]["args"]["Python id"], 1);
  EXPECT_EQ(events[0]["args"]["Python parent id"], 9);
  EXPECT_EQ(events[0]["args"]["Python module id"], 0);
  EXPECT_EQ(events[0]["args"]["Ev Idx"], 0);
  EXPECT_EQ(events[1]["cat"], "cpu_op");
  EXPECT_EQ(events[1]["args"]["Module"], name);
  EXPECT_EQ(events[1]["args"]["FLOPs"], 77);
  EXPECT_EQ(events[1]["args"]["Call stack"], "f;\"g\"");
  EXPECT_EQ(events[1]["args"]["Ev Idx"], 1);
  // The operator has counted already what the kernel does.
  EXPECT_EQ(events[2]["args"]["Module"], name);
  EXPECT_FALSE(events[2]["args"].contains("FLOPs"));
  EXPECT_FALSE(events[2]["args"].contains("Call stack"));
  EXPECT_EQ(events[3], before[3]);
  EXPECT_EQ(events[4], before[4]);
}

TEST(NotedTrace, OfATraceThatIsNotThereSaysSo) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      error_text<DataError>([&] { add_notes(folder / "none.json", {}); }),
      HasSubstr("none.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none.json.part"));
}

} // namespace
} // namespace cairn::monitor::traced_modules_test
