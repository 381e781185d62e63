// What `cairn plan` draws: the page, as a browser lays it out, and the trace.

#include "support/browser.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::plan::pictures_test {
namespace {

using testing::Browser;
using testing::TemporaryFolder;
using testing::Words;
using Json = nlohmann::json;

/// Plans a GPT of 1.3 billion parameters in a pipeline.
void plan(const Words& more) {
  Words words{
      CAIRN_BINARY_DIR "/bin/cairn",
      "plan",
      "--num-layers",
      "24",
      "--hidden-size",
      "2048",
      "--num-attention-heads",
      "16",
      "--seq-length",
      "2048",
      "--vocab-size",
      "50257",
      "--cluster",
      "selene-a100",
      "--num-gpus",
      "8",
      "--pipeline-model-parallel-size",
      "4",
      "--global-batch-size",
      "64"};
  words.insert(words.end(), more.begin(), more.end());
  const auto result = testing::run(words);
  ASSERT_EQ(result.code, 0) << result.err;
}

class PlanInABrowser : public testing::BrowserTest {};

// The parts of a bar stand beside each other and have sizes; so do the passes
// of each stage in the timeline.
TEST_F(PlanInABrowser, DrawsBarsAndATimeline) {
  const TemporaryFolder folder;
  plan({"--top", "3", "--html", (folder / "plan.html").string()});
  std::string page = testing::read_text(folder / "plan.html");
  page += R"(<script>
    const boxes = svg => [...svg.querySelectorAll("rect")].map(rect => {
      const box = rect.getBoundingClientRect();
      return [box.left, box.top, box.width, box.height,
              getComputedStyle(rect).fill, rect.textContent];
    });
    const text = document.createElement("pre");
    text.textContent = JSON.stringify(
        [...document.querySelectorAll("svg")].map(boxes));
    document.getElementById("page").append(text);
  </script>)";
  const auto seen =
      Browser().look("file://" + folder.write("measured.html", page), 1600);
  EXPECT_EQ(seen.console, "");
  const auto begin = seen.document.find("<pre>") + 5;
  const Json pictures = Json::parse(
      seen.document.substr(begin, seen.document.find("</pre>") - begin));
  ASSERT_EQ(pictures.size(), 3U + 3U + 1U)
      << "time and memory of three layouts, and the timeline";
  for (std::size_t i = 0; i < 6; ++i) {
    const bool memory = i >= 3;
    ASSERT_GE(pictures[i].size(), 4U) << i;
    double right = 0;
    std::set<std::string> colours;
    for (std::size_t part = memory ? 1 : 0; part < pictures[i].size(); ++part) {
      const Json& box = pictures[i][part];
      EXPECT_GT(box[2], 0) << box;
      EXPECT_EQ(box[3], 20) << box;
      if (right > 0) {
        EXPECT_NEAR(box[0], right, 1) << "parts touch: " << box;
      }
      right = box[0].get<double>() + box[2].get<double>();
      colours.insert(box[4].get<std::string>());
    }
    EXPECT_GE(colours.size(), 4U);
    if (memory) {
      const Json& room = pictures[i][0];
      EXPECT_GT(room[0].get<double>() + room[2].get<double>(), right)
          << "it fits";
    }
  }
  std::map<double, int> passes; // of each stage
  for (const Json& box : pictures[6]) {
    EXPECT_GT(box[2], 0) << box;
    EXPECT_EQ(box[3], 15) << box;
    EXPECT_LE(box[0].get<double>() + box[2].get<double>(), 1600);
    ++passes[box[1].get<double>()];
  }
  EXPECT_EQ(passes.size(), 4U) << "a row for each stage";
  for (const auto& [row, count] : passes) {
    EXPECT_EQ(count, passes.begin()->second);
    EXPECT_GE(count, 2 * 4);
  }
}

/// Events of each lane by the names of their stage and lane.
std::map<std::pair<std::string, std::string>, std::vector<Json>> lanes_of(
    const Json& trace) {
  std::map<Json, std::string> stages;
  std::map<std::pair<Json, Json>, std::string> lanes;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name") {
      stages[event.at("pid")] = event.at("args").at("name");
    } else if (event.at("ph") == "M") {
      EXPECT_EQ(event.at("name"), "thread_name");
      lanes[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    }
  }
  std::map<std::pair<std::string, std::string>, std::vector<Json>> found;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "M") {
      EXPECT_EQ(event.at("ph"), "X");
      found[{stages.at(event.at("pid")),
             lanes.at({event.at("pid"), event.at("tid")})}]
          .push_back(event);
    }
  }
  return found;
}

// What Perfetto needs: names of lanes, times in microseconds that are not
// negative, and events of a lane one after the other.
TEST(PlanTrace, HasLanesForPassesMessagesAndOffloading) {
  const TemporaryFolder folder;
  const std::string ds = folder.write(
      "ds.json",
      R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1,
          "offload_optimizer": {"device": "cpu"}}})");
  plan(
      {"--micro-batch-size",
       "4",
       "--deepspeed_config",
       ds,
       "--simulate",
       (folder / "trace.json").string()});
  const Json trace = Json::parse(testing::read_text(folder / "trace.json"));
  auto lanes = lanes_of(trace);
  constexpr int micro_batches = 8; // of 4 samples on 2 ranks
  for (int stage = 0; stage < 4; ++stage) {
    const std::string name = "stage " + std::to_string(stage);
    EXPECT_EQ((lanes[{name, "compute"}].size()), 2U * micro_batches)
        << "the update is on the host";
    EXPECT_EQ(
        (lanes[{name, "to the next stage"}].size()),
        stage < 3 ? micro_batches : 0U);
    EXPECT_EQ(
        (lanes[{name, "to the stage before"}].size()),
        stage > 0 ? micro_batches : 0U);
    EXPECT_EQ((lanes[{name, "offloading"}].size()), 1U);
    EXPECT_EQ((lanes[{name, "messages of data parallel ranks"}].size()), 2U);
  }
  for (auto& [names, events] : lanes) {
    double end = 0;
    for (const Json& event : events) {
      EXPECT_GE(event.at("ts").get<double>(), end - 1e-3)
          << names.first << ", " << names.second << event;
      EXPECT_GT(event.at("dur"), 0);
      end = event.at("ts").get<double>() + event.at("dur").get<double>();
    }
  }
  // A message arrives before the pass that needs it.
  const Json& sent = (lanes[{"stage 0", "to the next stage"}]).at(0);
  const Json& needs = (lanes[{"stage 1", "compute"}]).at(0);
  EXPECT_NEAR(
      sent.at("ts").get<double>() + sent.at("dur").get<double>(),
      needs.at("ts").get<double>(),
      1e-3);
}

} // namespace
} // namespace cairn::plan::pictures_test
