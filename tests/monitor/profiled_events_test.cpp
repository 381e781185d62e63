#include "monitor/measures/profiled_events.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace cairn::monitor::profiled_events_test {
namespace {

using Kind = ProfiledEvent::Kind;

/// Two modules with a product each, as a GPU's profile has them: the driver's
/// calls and the kernels have numbers of their own, which are also those of
/// other operators.
std::vector<ProfiledEvent> two_products() {
  return {
      {.kind = Kind::scope,
       .event =
           {.id = 1,
            .name = "nn.Module: a",
            .thread = 1,
            .begin = 0,
            .end = 100}},
      {.kind = Kind::other,
       .event =
           {.id = 4,
            .name = "cudaEventRecord",
            .thread = 1,
            .begin = 5,
            .end = 8}},
      {.kind = Kind::operation,
       .event =
           {.id = 2,
            .name = "aten::mm",
            .thread = 1,
            .begin = 10,
            .end = 90,
            .flops = 7}},
      {.kind = Kind::other,
       .event =
           {.id = 3,
            .name = "cudaLaunchKernel",
            .thread = 1,
            .begin = 20,
            .end = 30}},
      {.kind = Kind::scope,
       .event =
           {.id = 3,
            .name = "nn.Module: b",
            .thread = 1,
            .begin = 100,
            .end = 200}},
      {.kind = Kind::operation,
       .event =
           {.id = 4,
            .name = "aten::mm",
            .thread = 1,
            .begin = 110,
            .end = 190,
            .flops = 9}},
      {.kind = Kind::kernel,
       .event = {.id = 4, .name = "gemm", .begin = 300, .end = 350},
       .started_by = 2},
      {.kind = Kind::kernel,
       .event = {.id = 2, .name = "gemm", .begin = 350, .end = 420},
       .started_by = 4},
      {.kind = Kind::kernel,
       .event = {.id = 2, .name = "Memset", .begin = 420, .end = 421},
       .started_by = 4},
      // The shadow of a scope on the GPU is no work.
      {.kind = Kind::other,
       .event = {.id = 3, .name = "nn.Module: b", .begin = 300, .end = 421},
       .started_by = 3}};
}

TEST(ProfiledEvents, TheDriversCallsDoNotTakeTheNumbersOfOperators) {
  std::map<std::uint64_t, std::string> modules;
  for (const auto& [id, note] :
       trace_notes(operators_and_scopes(two_products()))) {
    modules[id] = note.module + " " + std::to_string(note.flops);
  }
  EXPECT_EQ(
      modules,
      (std::map<std::uint64_t, std::string>{
          {1, "a 0"},
          {2, "a 7"},
          {3, "b 0"},
          {4, "b 9"}}));
}

TEST(ProfiledEvents, TimesAreThoseOfTheKernelsThatAnOperatorStarts) {
  std::map<std::uint64_t, std::uint64_t> times;
  for (const TracedEvent& each : operators_and_scopes(two_products())) {
    EXPECT_TRUE(times.emplace(each.id, each.device_time).second) << each.id;
    EXPECT_EQ(each.is_operator, each.name == "aten::mm");
  }
  EXPECT_EQ(
      times,
      (std::map<std::uint64_t, std::uint64_t>{
          {1, 0},
          {2, 50},
          {3, 0},
          {4, 71}}));
}

} // namespace
} // namespace cairn::monitor::profiled_events_test
