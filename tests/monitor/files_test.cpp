#include "monitor/event_reader.h"
#include "monitor/files/csv_files.h"
#include "monitor/files/event_record.h"
#include "monitor/files/json_lines.h"
#include "monitor/files/scalars.h"
#include "support/error_text.h"
#include "support/faulty_files.h"
#include "support/python.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>
#include <cairn/base/log.h>
#include <cairn/monitor/event_file.h>
#include <cairn/monitor/monitor.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>

namespace cairn::monitor {
namespace {

using cairn::testing::Fault;
using cairn::testing::FaultyFiles;
using cairn::testing::TemporaryFolder;
using ::testing::HasSubstr;

std::filesystem::path golden_events(const char* name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / "tensorboard" / name;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TEST(EventFile, RecordsAreTensorBoardsToTheByte) {
  const auto records =
      nlohmann::json::parse(bytes_of(golden_events("records.json")));
  const std::string first = from_hex(records.at(0).at("data_hex"));
  std::string file = framed(version_event(
      std::bit_cast<double>(integer_at<std::uint64_t>(first, 1)),
      "tensorboard.summary.writer.event_file_writer"));
  for (std::size_t i = 1; i < records.size(); ++i) {
    const ReadScalar scalar = scalar_in(from_hex(records.at(i).at("data_hex")));
    file += framed(
        scalar_event(scalar.time, {scalar.name, scalar.value, scalar.step}));
  }
  EXPECT_GT(records.size(), 20U);
  EXPECT_EQ(
      file,
      bytes_of(golden_events("events.out.tfevents.1700000000.golden.1.0")));
}

TEST(EventFile, HoldsWhatWasWritten) {
  const TemporaryFolder folder;
  auto now =
      std::chrono::system_clock::time_point(std::chrono::seconds(1700000000));
  std::filesystem::path path;
  {
    EventFile file(
        {.folder = folder / "deep" / "runs", .queue_size = 3, .clock = [&] {
           return now;
         }});
    path = file.path();
    EXPECT_THAT(
        path.filename().string(),
        ::testing::StartsWith("events.out.tfevents.1700000000."));
    EXPECT_EQ(events_in(bytes_of(path)).size(), 1U);
    const std::vector<Scalar> two = {{"loss", 2.5, 7}, {"lr", 1e-4, 7}};
    file.write(two);
    EXPECT_EQ(events_in(bytes_of(path)).size(), 1U) << "held back";
    file.text(7, "hidden_size", "768");
    EXPECT_EQ(events_in(bytes_of(path)).size(), 4U) << "the queue is full";
    file.write(two);
    now += std::chrono::seconds(31);
    file.write(two);
    EXPECT_EQ(events_in(bytes_of(path)).size(), 8U) << "held too long";
    file.write(two);
  }
  const auto events = events_in(bytes_of(path));
  ASSERT_EQ(events.size(), 10U);
  EXPECT_EQ(field(events[0], 3), "brain.Event:2");
  EXPECT_EQ(scalar_in(events[1]).name, "loss");
  EXPECT_EQ(scalar_in(events[1]).value, 2.5F);
  EXPECT_EQ(scalar_in(events[1]).step, 7);
  EXPECT_EQ(scalar_in(events[1]).time, 1700000000.0);
  EXPECT_EQ(scalar_in(events[2]).value, 1e-4F);
  const std::string text = field(field(events[3], 5), 1);
  EXPECT_EQ(field(text, 1), "hidden_size/text_summary");
  EXPECT_EQ(field(field(text, 8), 8), "768");
}

TEST(EventFile, RunsOfOneSecondGetFilesOfTheirOwn) {
  const TemporaryFolder folder;
  const auto now = std::chrono::system_clock::now();
  const EventFile a({.folder = folder.path(), .clock = [&] { return now; }});
  const EventFile b({.folder = folder.path(), .clock = [&] { return now; }});
  EXPECT_NE(a.path(), b.path());
}

TEST(EventFile, NamesTheFolderThatCannotBeMade) {
  const TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_THAT(
      error_text<DataError>(
          [&] { EventFile({.folder = folder / "file" / "x"}); }),
      HasSubstr("cannot make the folder"));
}

TEST(CsvFiles, AreDeepSpeeds) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {32, 64}) {
    CsvFiles files(folder / "job"); // a second run goes on in the same file
    files.write(std::vector<Scalar>{
        {"Train/Samples/lr", step == 32 ? 0.001 : 5e-05, step},
        {"Train/Samples/sop loss", 2, step}});
  }
  EXPECT_EQ(
      bytes_of(folder / "job" / "Train_Samples_lr.csv"),
      "step,lr\n32,0.001\n64,5e-05\n");
  EXPECT_EQ(
      bytes_of(folder / "job" / "Train_Samples_sop_loss.csv"),
      "step,sop loss\n32,2.0\n64,2.0\n");
}

std::chrono::system_clock::time_point some_time() {
  return std::chrono::system_clock::time_point(
      std::chrono::milliseconds(1700000000125));
}

TEST(JsonLines, OneObjectPerMoment) {
  const TemporaryFolder folder;
  const auto path = folder / "run.jsonl";
  // The log of a process that was killed while it wrote.
  folder.write(
      "run.jsonl",
      "{\"step\":1,\"lm loss\":9.5}\n{\"step\":2,\"lm lo");
  {
    JsonLines lines(path, some_time);
    lines.write(std::vector<Scalar>{
        {"lm loss", 5.25, 2},
        {"grad norm", std::numeric_limits<double>::infinity(), 2}});
    lines.write({});
  }
  EXPECT_EQ(
      bytes_of(path),
      "{\"step\":1,\"lm loss\":9.5}\n"
      "{\"step\":2,\"lm loss\":5.25,\"grad norm\":null,"
      "\"time\":1700000000.125}\n");
}

TEST(JsonLines, EventsSayWhatKindTheyAre) {
  const TemporaryFolder folder;
  const auto path = folder / "run.jsonl";
  {
    JsonLines lines(path, some_time);
    lines.event(RunStart{
        .step = 40,
        .iterations = 100,
        .ranks = 2,
        .model = "gpt",
        .versions = {{"Cairn", "1.2"}},
        .given = {{"--lr", "0.001"}, {"--save", "\"a\xff\n<b>\""}},
        .configuration = R"({"flags": {"lr": 0.001}})"});
    lines.event(
        RunMemory{41, "cpu", {{"parameters", 1024.0}, {"gradients", 512.0}}});
    lines.event(RunEnd{100, "done"});
    lines.event(RunEstimate{40, "H200", 0.125, {{"total", 2048.0}}});
    lines.event(RunStart{.configuration = "no JSON"});
  }
  std::istringstream text(bytes_of(path));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line));
    EXPECT_EQ(lines.back()["time"], 1700000000.125);
  }
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0]["event"], "start");
  EXPECT_EQ(lines[0]["step"], 40);
  EXPECT_EQ(lines[0]["ranks"], 2);
  EXPECT_EQ(lines[0]["versions"]["Cairn"], "1.2");
  EXPECT_EQ(lines[0]["given"]["--save"], "\"a\xef\xbf\xbd\n<b>\"");
  EXPECT_EQ(lines[0]["configuration"]["flags"]["lr"], 0.001);
  EXPECT_EQ(lines[1]["bytes"]["gradients"], 512);
  EXPECT_EQ(lines[2]["reason"], "done");
  EXPECT_EQ(lines[3]["event"], "estimate");
  EXPECT_EQ(lines[3]["machine"], "H200");
  EXPECT_EQ(lines[3]["iteration_seconds"], 0.125);
  EXPECT_EQ(lines[3]["bytes"]["total"], 2048);
  EXPECT_EQ(lines[4]["configuration"], "no JSON");
}

TEST(JsonLines, RefusesWhatIsNoFile) {
  EXPECT_THAT(
      error_text<DataError>([] { JsonLines("/dev/full"); }),
      HasSubstr("no regular file"));
}

// ---- All files behind one monitor

struct MonitoredRun {
  TemporaryFolder folder;
  std::filesystem::path log = folder / "log";
  UniqueFd log_fd{::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)};
  Logger logger{Logger::Options{.fd = log_fd.get()}};
  RunSize run{.iterations = 100, .ranks = 2};

  Monitor::Options options() const {
    Monitor::Options options;
    options.flags.tensorboard_dir = (folder / "tensorboard").string();
    options.flags.jsonl = (folder / "run.jsonl").string();
    for (auto* config : {&options.tensorboard, &options.csv}) {
      config->enabled = true;
      config->job_name = "job";
    }
    options.tensorboard.output_path = (folder / "ds").string();
    options.csv.output_path = (folder / "csv").string();
    options.arguments = {{"hidden_size", "64"}};
    options.start = RunStart{.iterations = 100, .ranks = 2};
    return options;
  }
  static IterationValues values(std::int64_t iteration) {
    return {
        .iteration = iteration,
        .consumed_samples = 32 * iteration,
        .consumed_tokens = 2048 * iteration,
        .batch_size = 32,
        .sequence_length = 64,
        .learning_rate = 3e-4,
        .losses = {{"lm loss", 5.0 / static_cast<double>(iteration)}}};
  }
  std::vector<ReadScalar> scalars(const char* where) const {
    std::vector<ReadScalar> all;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder / where)) {
      for (const std::string& event : events_in(bytes_of(entry.path()))) {
        if (fields_of(event).count(5) == 1 &&
            !field(field(field(event, 5), 1), 2).empty()) {
          all.push_back(scalar_in(event));
        }
      }
    }
    return all;
  }
};

TEST(Monitor, WritesEverywhereUnderTheNamesOfEach) {
  const MonitoredRun test;
  {
    Monitor monitor(test.options(), test.logger);
    EXPECT_TRUE(monitor.wants(1));
    const IterationValues values = MonitoredRun::values(1);
    monitor.iteration({values, test.run});
    monitor.validation(
        {.at = "iteration 1",
         .iteration = 1,
         .consumed_samples = 32,
         .consumed_tokens = 2048,
         .losses = {{"lm loss", 4.5}}});
  }
  const auto megatron = test.scalars("tensorboard");
  const auto find = [&](std::string_view name) {
    return *std::find_if(
        megatron.begin(),
        megatron.end(),
        [&](const ReadScalar& scalar) { return scalar.name == name; });
  };
  EXPECT_EQ(find("lm-loss-training/lm loss").step, 1);
  EXPECT_EQ(find("lm-loss-training/lm loss vs samples").step, 32);
  EXPECT_EQ(find("lm-loss-training/lm loss vs tokens").step, 2048);
  EXPECT_EQ(find("lm-loss-validation/lm loss validation").value, 4.5F);
  const auto deepspeed = test.scalars("ds/job");
  ASSERT_EQ(deepspeed.size(), 3U);
  EXPECT_EQ(deepspeed[0].name, "Train/Samples/train_loss");
  EXPECT_EQ(deepspeed[0].step, 32);
  EXPECT_EQ(
      bytes_of(test.folder / "csv/job/Train_Samples_train_loss.csv"),
      "step,train_loss\n32,5.0\n");
  EXPECT_EQ(
      bytes_of(test.folder / "csv/job/Train_Samples_eval_loss.csv"),
      "step,eval_loss\n32,4.5\n");
  EXPECT_THAT(
      bytes_of(test.folder / "run.jsonl"),
      ::testing::AllOf(
          HasSubstr("{\"step\":1,\"consumed samples\":32,"),
          HasSubstr("{\"step\":1,\"validation lm loss\":4.5,\"time\":"),
          ::testing::StartsWith("{\"step\":0,\"event\":\"start\",")));
  EXPECT_EQ(bytes_of(test.log), "");
}

TEST(Monitor, AFullDiskIsSaidOnceAndStopsNothing) {
  const MonitoredRun test;
  Monitor::Options options;
  options.flags.tensorboard_dir = (test.folder / "tensorboard").string();
  options.flags.tensorboard_queue_size = 1;
  Monitor monitor(options, test.logger);
  {
    const FaultyFiles full(
        test.folder / "tensorboard",
        {.at = 1, .kind = Fault::Kind::short_write, .error = ENOSPC});
    const IterationValues values = MonitoredRun::values(1);
    monitor.iteration({values, test.run});
    EXPECT_TRUE(full.fault_met());
  }
  {
    const FaultyFiles full(
        test.folder / "tensorboard",
        {.at = 1, .kind = Fault::Kind::stays_full, .error = ENOSPC});
    for (const std::int64_t i : {2, 3}) {
      const IterationValues values = MonitoredRun::values(i);
      monitor.iteration({values, test.run});
    }
  }
  std::string said = bytes_of(test.log);
  EXPECT_THAT(said, HasSubstr("measurements are lost, training goes on"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  const IterationValues values = MonitoredRun::values(4);
  monitor.iteration({values, test.run});
  said = bytes_of(test.log);
  EXPECT_THAT(said, HasSubstr("written again, with a gap"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  // Nothing is left of the half that was written; it would end the file for
  // every reader.
  const auto scalars = test.scalars("tensorboard");
  ASSERT_FALSE(scalars.empty());
  for (const ReadScalar& scalar : scalars) {
    EXPECT_TRUE(scalar.step == 4 || scalar.step == 128 || scalar.step == 8192)
        << scalar.name << " at " << scalar.step;
  }
}

TEST(Monitor, WantsEveryNthIteration) {
  const MonitoredRun test;
  Monitor::Options options = test.options();
  options.flags.tensorboard_log_interval = 5;
  const Monitor monitor(options, test.logger);
  EXPECT_FALSE(monitor.wants(4));
  EXPECT_TRUE(monitor.wants(5));
  EXPECT_FALSE(Monitor().wants(5));
}

TEST(Monitor, TensorBoardItselfReadsTheFiles) {
  const MonitoredRun test;
  Monitor::Options options = test.options();
  options.flags.batch_size_to_tensorboard = true;
  options.flags.validation_ppl_to_tensorboard = true;
  nlohmann::json expected;
  for (const std::int64_t begin : {0, 3}) { // the second run goes back a step
    options.iteration = begin;
    Monitor monitor(options, test.logger);
    for (std::int64_t i = begin + 1; i <= begin + 4; ++i) {
      const IterationValues values = MonitoredRun::values(i);
      const IterationRecord record{values, test.run};
      monitor.iteration(record);
      for (const Scalar& scalar : megatron_scalars(record, options.flags)) {
        expected["scalars"][scalar.name][std::to_string(scalar.step)] =
            static_cast<float>(scalar.value);
      }
    }
  }
  expected["texts"]["hidden_size/text_summary"] = "64";
  const std::string file = test.folder.write("expected.json", expected.dump());
  testing::run_python_tool(
      "check_tensorboard.py",
      {(test.folder / "tensorboard").string(), file});
}

} // namespace
} // namespace cairn::monitor
