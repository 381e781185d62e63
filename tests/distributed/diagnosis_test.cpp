#include "distributed/watch/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace cairn::distributed::diagnosis_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = CollectiveRecord::Clock;

CollectiveRecord call(
    const std::string& operation,
    std::uint64_t sequence,
    const std::string& site,
    CollectiveState state,
    const std::string& group = "world") {
  CollectiveRecord record;
  record.operation = operation;
  record.sequence = sequence;
  record.group = group;
  record.group_key = group;
  record.dtype = "float32";
  record.sizes = {8};
  record.site = site;
  record.state = state;
  record.called = Clock::now() - std::chrono::seconds(40);
  record.ended = Clock::now() - std::chrono::seconds(31);
  return record;
}

constexpr auto running = CollectiveState::running;
constexpr auto finished = CollectiveState::finished;

/// Three ranks that agree on #13 and reached #14, unless told otherwise.
std::map<int, Notes> three_ranks() {
  std::map<int, Notes> notes;
  for (int rank = 0; rank < 3; ++rank) {
    notes[rank] = Notes{
        .rank = rank,
        .groups = {{"world", {0, 1, 2}}, {"pair", {1, 2}}},
        .records = {
            call("all_gather", 13, "train.cpp:80", finished),
            call("all_reduce", 14, "train.cpp:88", running)}};
  }
  return notes;
}

Alarm alarm() {
  return {
      .rank = 0,
      .record = call("all_reduce", 14, "train.cpp:88", running),
      .members = {0, 1, 2},
      .waited_seconds = 30};
}

TEST(Diagnosis, NamesTheRankThatIsLate) {
  auto notes = three_ranks();
  notes[2].records.pop_back();
  EXPECT_EQ(
      diagnose(alarm(), notes, 3),
      "rank 2 has not reached all_reduce #14 of group \"world\" (called by "
      "rank 0 at train.cpp:88); its last call was all_gather #13 of group "
      "\"world\" at train.cpp:80, finished 31 s ago");
}

TEST(Diagnosis, NamesSeveralLateRanks) {
  auto notes = three_ranks();
  notes[1].records.clear();
  notes[2].records.pop_back();
  EXPECT_THAT(
      diagnose(alarm(), notes, 3),
      AllOf(
          HasSubstr("ranks 1, 2 have not reached all_reduce #14"),
          HasSubstr("of rank 1: it has made no collective call yet")));
}

TEST(Diagnosis, NamesTheRankOnAnotherOperation) {
  auto notes = three_ranks();
  notes[2].records.back() = call("broadcast", 14, "eval.cpp:5", running);
  EXPECT_EQ(
      diagnose(alarm(), notes, 3),
      "rank 2 called broadcast(float32 [8]) at eval.cpp:5 as #14 of group "
      "\"world\", where rank 0 called all_reduce(float32 [8]) at train.cpp:88");
}

TEST(Diagnosis, TheManyAreRightEvenIfTheOddOneRaisedTheAlarm) {
  auto notes = three_ranks();
  Alarm odd = alarm();
  odd.record.sizes = {9};
  notes[0].records.back().sizes = {9};
  EXPECT_THAT(
      diagnose(odd, notes, 3),
      HasSubstr("rank 0 called all_reduce(float32 [9])"));
}

TEST(Diagnosis, SizesThatMayDifferAreNoMismatch) {
  auto notes = three_ranks();
  Alarm uneven = alarm();
  for (CollectiveRecord* record :
       {&uneven.record,
        &notes[0].records[1],
        &notes[1].records[1],
        &notes[2].records[1]}) {
    record->sizes_vary = true;
  }
  notes[2].records[1].sizes = {5};
  EXPECT_THAT(diagnose(uneven, notes, 3), HasSubstr("every rank answers"));
}

TEST(Diagnosis, NamesTheRankThatDoesNotAnswer) {
  auto notes = three_ranks();
  notes.erase(1);
  Alarm broken = alarm();
  broken.library_error = "Connection closed by peer";
  EXPECT_EQ(
      diagnose(broken, notes, 3),
      "rank 1 does not answer (dead, stopped or cut off); all_reduce #14 of "
      "group \"world\" of rank 0 at train.cpp:88 failed: Connection closed by "
      "peer");
}

TEST(Diagnosis, WithoutACulpritTheLibraryHasTheWord) {
  Alarm broken = alarm();
  broken.library_error = "out of memory";
  EXPECT_EQ(
      diagnose(broken, three_ranks(), 3),
      "all_reduce #14 of group \"world\" of rank 0 at train.cpp:88 failed: out "
      "of memory");
}

TEST(Diagnosis, FollowsTheChainToTheCulprit) {
  // Rank 2 idles; rank 1 waits for it in another group; rank 0 waits for rank
  // 1.
  auto notes = three_ranks();
  notes[1].records.back() = call("broadcast", 4, "pipe.cpp:7", running, "pair");
  notes[2].records.pop_back();
  Alarm two = alarm();
  two.members = {0, 1};
  EXPECT_THAT(
      diagnose(two, notes, 3),
      AllOf(
          HasSubstr("rank 1 has not reached all_reduce #14"),
          HasSubstr("it has been waiting in broadcast #4 of group \"pair\" at "
                    "pipe.cpp:7"),
          HasSubstr("there, rank 2 has not reached broadcast #4")));
}

TEST(Diagnosis, ARingOfWaitsEnds) {
  auto notes = three_ranks();
  notes[1].records = {call("broadcast", 1, "a.cpp:1", running, "pair")};
  notes[2].records = {call("all_reduce", 14, "b.cpp:2", running)};
  notes[2].records.push_back(call("send", 1, "c.cpp:3", running, "pair"));
  notes[2].records.back().peer = 1;
  EXPECT_THAT(diagnose(alarm(), notes, 3), HasSubstr("rank 1 has not reached"));
}

TEST(Diagnosis, ARankFarAheadIsNotLate) {
  auto notes = three_ranks();
  notes[1].records.clear();
  notes[1].reached["world"] = 400;
  notes[2].records.pop_back();
  notes[2].reached["world"] = 13;
  EXPECT_THAT(diagnose(alarm(), notes, 3), HasSubstr("rank 2 has not reached"));
}

TEST(Diagnosis, SaysThatARankHasLeft) {
  auto notes = three_ranks();
  notes[2].records.pop_back();
  notes[2].left = true;
  EXPECT_THAT(diagnose(alarm(), notes, 3), HasSubstr("it has left the job"));
}

TEST(Diagnosis, FindsTheOtherEndOfAMessage) {
  auto notes = three_ranks();
  Alarm waiting = alarm();
  waiting.record = call("recv", 3, "pipe.cpp:9", running);
  waiting.record.peer = 1;
  EXPECT_THAT(
      diagnose(waiting, notes, 3),
      HasSubstr("rank 1 has not reached the other end of recv #3 from rank 1"));
  notes[1].records.push_back(call("send", 3, "pipe.cpp:5", running));
  notes[1].records.back().peer = 0;
  EXPECT_THAT(diagnose(waiting, notes, 3), HasSubstr("every rank answers"));
  notes[1].records.back().sizes = {4};
  EXPECT_THAT(
      diagnose(waiting, notes, 3),
      AllOf(HasSubstr("send(float32 [4])"), HasSubstr("recv(float32 [8])")));
}

} // namespace
} // namespace cairn::distributed::diagnosis_test
