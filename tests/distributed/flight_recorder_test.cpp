#include "distributed/watch/notes.h"

#include "distributed/watch/flight_recorder.h"

#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed::flight_recorder_test {
namespace {

CollectiveRecord call(std::uint64_t sequence) {
  CollectiveRecord record;
  record.operation = "all_reduce";
  record.sequence = sequence;
  record.group = "world";
  record.group_key = "world";
  record.dtype = "float32";
  record.sizes = {8};
  record.detail = "sum";
  record.site = "train.cpp:88";
  return record;
}

TEST(FlightRecorder, KeepsTheLastCalls) {
  FlightRecorder recorder(3);
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(recorder.schedule(call(i)).id, i);
  }
  const auto records = recorder.records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records.front().sequence, 2U);
  EXPECT_EQ(records.back().sequence, 4U);
}

TEST(FlightRecorder, KnowsHowFarEachGroupIs) {
  FlightRecorder recorder(1);
  CollectiveRecord other = call(7);
  other.group_key = "other";
  recorder.schedule(other);
  recorder.schedule(call(3));
  CollectiveRecord message = call(90); // these are counted apart
  message.peer = 1;
  recorder.schedule(message);
  const std::map<std::string, std::uint64_t> expected = {
      {"other", 7},
      {"world", 3}};
  EXPECT_EQ(recorder.reached(), expected);
}

TEST(FlightRecorder, CountsWhatWasSent) {
  FlightRecorder recorder(1);
  CollectiveRecord record = call(1);
  record.bytes = bytes_sent("all_reduce", 80, 4);
  recorder.schedule(record);
  recorder.schedule(record);
  record.operation = "all_gather";
  record.bytes = bytes_sent("all_gather", 80, 4);
  recorder.schedule(record);
  const std::vector<Traffic> expected = {
      {"world", "all_gather", 1, 240},
      {"world", "all_reduce", 2, 240}};
  EXPECT_EQ(recorder.traffic(), expected);
  EXPECT_EQ(bytes_sent("reduce_scatter", 80, 4), 60);
  EXPECT_EQ(bytes_sent("all_to_all", 80, 4), 60);
  EXPECT_EQ(bytes_sent("send", 80, 4), 80);
  EXPECT_EQ(bytes_sent("recv", 80, 4), 0);
}

TEST(FlightRecorder, FollowsACallToItsEnd) {
  FlightRecorder recorder(2);
  const std::uint64_t id = recorder.schedule(call(1)).id;
  EXPECT_EQ(recorder.records()[0].state, CollectiveState::scheduled);
  recorder.running(id);
  EXPECT_TRUE(recorder.records()[0].pending());
  recorder.ended(id, CollectiveState::finished);
  recorder.running(id); // late news
  const CollectiveRecord record = recorder.records()[0];
  EXPECT_EQ(record.state, CollectiveState::finished);
  EXPECT_GE(record.ended, record.called);
  // The record is overwritten meanwhile: nothing is updated or touched.
  recorder.schedule(call(2));
  recorder.schedule(call(3));
  recorder.ended(id, CollectiveState::failed);
  for (const CollectiveRecord& other : recorder.records()) {
    EXPECT_EQ(other.state, CollectiveState::scheduled);
  }
}

TEST(FlightRecorder, RefusesToKeepNothing) {
  EXPECT_THROW(FlightRecorder(0), UsageError);
}

TEST(FlightRecorder, NamesCalls) {
  CollectiveRecord record = call(14);
  EXPECT_EQ(name_of(record), "all_reduce #14 of group \"world\"");
  EXPECT_EQ(signature_of(record), "all_reduce(float32 [8], sum)");
  record.sizes = {1, 2, 3, 4, 5};
  EXPECT_EQ(
      signature_of(record),
      "all_reduce(float32 [1, 2, 3, 4, … 5 tensors], sum)");
  record.operation = "recv";
  record.peer = 3;
  EXPECT_EQ(name_of(record), "recv #14 from rank 3 in group \"world\"");
}

TEST(FlightRecorder, IsSafeToUseFromManyThreads) {
  FlightRecorder recorder(16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        const std::uint64_t id = recorder.schedule(call(i)).id;
        recorder.running(id);
        recorder.ended(id, CollectiveState::finished);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto records = recorder.records();
  ASSERT_EQ(records.size(), 16U);
  EXPECT_EQ(records.back().id, 1999U);
}

TEST(Notes, TravelAsText) {
  FlightRecorder recorder;
  recorder.add_group("world", {0, 1, 2});
  const std::uint64_t id = recorder.schedule(call(7)).id;
  recorder.ended(id, CollectiveState::finished);
  CollectiveRecord message = call(1);
  message.operation = "send";
  message.peer = 0;
  recorder.schedule(message);
  const Notes notes{
      .rank = 2,
      .left = true,
      .groups = recorder.groups(),
      .reached = recorder.reached(),
      .records = recorder.records()};
  const auto read = notes_from_text(to_text(notes));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rank, 2);
  EXPECT_TRUE(read->left);
  EXPECT_EQ(read->groups, notes.groups);
  EXPECT_EQ(read->reached, notes.reached);
  ASSERT_EQ(read->records.size(), 2U);
  EXPECT_EQ(read->records[0].state, CollectiveState::finished);
  EXPECT_EQ(read->records[0].site, "train.cpp:88");
  EXPECT_EQ(read->records[0].peer, std::nullopt);
  EXPECT_EQ(read->records[1].peer, 0);

  const Alarm alarm{
      .rank = 1,
      .record = notes.records[0],
      .members = {0, 1},
      .library_error = "closed",
      .waited_seconds = 2.5};
  const auto heard = alarm_from_text(to_text(alarm));
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->members, alarm.members);
  EXPECT_EQ(heard->library_error, "closed");
}

TEST(Notes, NonsenseIsNoNote) {
  const std::string good = to_text(Notes{.rank = 1});
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_FALSE(notes_from_text(good.substr(0, cut))) << cut;
  }
  for (const char* text :
       {"",
        "null",
        "[]",
        "{}",
        "7",
        R"({"rank":"1"})",
        R"({"rank":1,"left":false,"groups":[],"records":3})",
        R"({"rank":1,"left":false,"groups":{},"records":[{"id":-1}]})"}) {
    EXPECT_FALSE(notes_from_text(text)) << text;
    EXPECT_FALSE(alarm_from_text(text)) << text;
  }
}

} // namespace
} // namespace cairn::distributed::flight_recorder_test
