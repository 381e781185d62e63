#include "report/log_reader.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::report::log_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TemporaryFolder;

constexpr const char* start_line =
    R"({"step":0,"event":"start","model":"gpt","iterations":9,"ranks":2,)"
    R"("host":"here","versions":{"Cairn":"1"},"given":{"--lr":"0.1",)"
    R"("--seed":7},"configuration":{"flags":{"lr":0.1}},"time":100.5})"
    "\n";

RunLog log_of(std::string_view text) {
  const TemporaryFolder folder;
  LogReader reader(folder.write("run.jsonl", text));
  reader.update();
  return reader.log();
}

std::vector<std::int64_t> steps(const RunLog& log, std::string_view name) {
  std::vector<std::int64_t> result;
  const Curve* curve = log.curve(name);
  if (curve != nullptr) {
    for (const Curve::Point& point : curve->points()) {
      result.push_back(point.step);
    }
  }
  return result;
}

TEST(LogReader, TakesValuesAndEvents) {
  const RunLog log = log_of(
      std::string(start_line) +
      R"({"step":1,"lm loss":5.5,"grad norm":null,"time":101}
{"step":1,"event":"memory","device":"cpu","bytes":{"parameters":10,"x":-1}}
{"step":1,"event":"estimate","machine":"H200","iteration_seconds":0.5,"bytes":{"total":7}}
{"step":2,"lm loss":4.5,"time":102}
{"step":2,"validation lm loss":4.75,"time":103}
{"step":2,"event":"end","reason":"done","time":104}
)");
  EXPECT_EQ(log.model, "gpt");
  EXPECT_EQ(log.iterations, 9);
  ASSERT_EQ(log.starts.size(), 1U);
  EXPECT_EQ(log.starts[0].ranks, 2);
  EXPECT_EQ(log.starts[0].host, "here");
  EXPECT_THAT(log.versions, ElementsAre(Pair("Cairn", "1")));
  EXPECT_THAT(log.given, ElementsAre(Pair("--lr", "0.1"), Pair("--seed", "7")));
  EXPECT_EQ(log.configuration, R"({"flags":{"lr":0.1}})");
  EXPECT_EQ(log.curve("lm loss")->last(), 4.5);
  EXPECT_EQ(log.curve("grad norm")->last(), std::nullopt);
  EXPECT_EQ(log.curve("validation lm loss")->last(), 4.75);
  EXPECT_THAT(log.memory->bytes, ElementsAre(Pair("parameters", 10.0)));
  ASSERT_TRUE(log.estimate);
  EXPECT_EQ(log.estimate->machine, "H200");
  EXPECT_EQ(log.estimate->iteration_seconds, 0.5);
  EXPECT_THAT(log.estimate->bytes, ElementsAre(Pair("total", 7.0)));
  EXPECT_EQ(log.end->reason, "done");
  EXPECT_EQ(log.first_time, 100.5);
  EXPECT_EQ(log.last_time, 104);
  EXPECT_EQ(log.restarts, 0);
  EXPECT_EQ(log.broken_lines, 0);
}

TEST(LogReader, ARestartThrowsAwayWhatTheRunWentBackBehind) {
  const RunLog log = log_of(
      R"({"step":0,"event":"start"}
{"step":1,"lm loss":5}
{"step":2,"lm loss":4}
{"step":3,"lm loss":3}
{"step":2,"event":"start","time":7}
{"step":3,"lm loss":3.5}
)");
  EXPECT_EQ(log.restarts, 1);
  ASSERT_EQ(log.starts.size(), 2U);
  EXPECT_EQ(log.starts[1].step, 2);
  EXPECT_EQ(log.starts[1].reached, 3);
  EXPECT_THAT(steps(log, "lm loss"), ElementsAre(1, 2, 3));
  EXPECT_EQ(log.curve("lm loss")->last(), 3.5);
}

TEST(LogReader, KnowsARestartWithoutARecordOfIt) {
  const RunLog log =
      log_of("{\"step\":1,\"lm loss\":5}\n{\"step\":2,\"lm loss\":4}\n"
             "{\"step\":2,\"validation lm loss\":4}\n"
             "{\"step\":3,\"lm loss\":3}\n{\"step\":2,\"lm loss\":4.5}\n");
  EXPECT_EQ(log.restarts, 1);
  ASSERT_EQ(log.starts.size(), 2U);
  EXPECT_EQ(log.starts[1].step, 1);
  EXPECT_EQ(log.starts[1].reached, 3);
  EXPECT_THAT(steps(log, "lm loss"), ElementsAre(1, 2));
  EXPECT_EQ(log.curve("lm loss")->last(), 4.5);
  EXPECT_EQ(log.curve("validation lm loss"), nullptr);
}

TEST(LogReader, LeavesOutWhatIsNoRecordAndCountsIt) {
  const RunLog log =
      log_of("no JSON\n[1]\n{\"step\":-1,\"a\":1}\n{\"step\":\"x\"}\n"
             "{\"step\":1.5}\n{\"step\":9007199254740992,\"a\":1}\n\xff\xfe\n"
             "{\"step\":99999999999999999999}\n\n"
             "{\"step\":1,\"a\":2,\"text\":\"b\",\"list\":[1]}\n");
  EXPECT_EQ(log.broken_lines, 8);
  EXPECT_EQ(log.records, 1);
  ASSERT_EQ(log.curves.size(), 1U);
  EXPECT_EQ(log.curves[0].first, "a");
}

TEST(LogReader, TakesWhatPythonCallsNumbers) {
  const RunLog log =
      log_of("{\"step\":1,\"a\":NaN,\"b\":-Infinity,\"c\":Infinity,"
             "\"NaN \\\" Infinity\":1}\n");
  EXPECT_EQ(log.broken_lines, 0);
  EXPECT_EQ(log.curve("a")->last(), std::nullopt);
  EXPECT_EQ(log.curve("NaN \" Infinity")->last(), 1);
}

TEST(LogReader, WaitsForTheEndOfALine) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("run.jsonl", "{\"step\":1,\"a\":1}\n{\"step\":2,");
  LogReader reader(path);
  EXPECT_TRUE(reader.update());
  EXPECT_EQ(reader.log().records, 1);
  EXPECT_EQ(reader.log().broken_lines, 0);
  EXPECT_FALSE(reader.update());
  std::ofstream(path, std::ios::app) << "\"a\":2}\n";
  EXPECT_TRUE(reader.update());
  EXPECT_EQ(reader.log().curve("a")->last(), 2);

  folder.write("run.jsonl", "{\"step\":5,\"b\":5}\n"); // begun anew
  EXPECT_TRUE(reader.update());
  EXPECT_EQ(reader.log().curve("a"), nullptr);
  EXPECT_EQ(reader.log().last_step, 5);
}

TEST(LogReader, IsNotDrownedInNamesOrLines) {
  std::string text = "{\"step\":1";
  for (int i = 0; i < 1000; ++i) {
    text += ",\"name " + std::to_string(i) + "\":1";
  }
  text += "}\n{\"step\":2,\"" + std::string(17 << 20, 'x') + "\":1}\n";
  text += "{\"step\":3,\"name 1\":1}\n";
  const RunLog log = log_of(text);
  EXPECT_EQ(log.curves.size(), 256U);
  EXPECT_EQ(log.ignored_values, 1000 - 256);
  EXPECT_EQ(log.broken_lines, 1);
  EXPECT_EQ(log.last_step, 3);
}

TEST(LogReader, RefusesWhatIsNoFile) {
  EXPECT_THAT(
      error_text<DataError>([] { LogReader("/nowhere/at/all").update(); }),
      HasSubstr("/nowhere/at/all"));
  EXPECT_THAT(
      error_text<DataError>([] { LogReader("/dev/null").update(); }),
      HasSubstr("no regular file"));
}

TEST(LogReader, SurvivesDamagedLogs) {
  const std::string seed = std::string(start_line) +
      "{\"step\":1,\"lm loss\":5.5,\"grad norm\":null,\"time\":101}\n"
      "{\"step\":1,\"event\":\"memory\",\"bytes\":{\"parameters\":10}}\n";
  const int accepted = testing::fuzz(
      {.seeds = {seed},
       .pieces =
           {"NaN",
            "-Infinity",
            "1e999",
            "\"event\":\"start\"",
            "{\"step\":",
            "\n",
            "\\u0000",
            "9223372036854775807"},
       .runs = 5000},
      [](const std::string& text) {
        LogRecords records;
        std::size_t begin = 0;
        while (begin < text.size()) {
          const auto end = std::min(text.find('\n', begin), text.size());
          records.add(std::string_view(text).substr(begin, end - begin));
          begin = end + 1;
        }
        if (records.log().broken_lines > 0) {
          throw DataError({.what = "damaged"});
        }
      });
  EXPECT_GT(accepted, 10);
  EXPECT_LT(accepted, 5000);
}

} // namespace
} // namespace cairn::report::log_reader_test
