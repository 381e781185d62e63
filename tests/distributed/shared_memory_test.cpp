// Facts that the group suite cannot see: which way a group goes, the bits of
// sums, the edges of slots and rounds, and the remains of a killed process.

#include "distributed/shared_memory/shared_memory_channel.h"
#include "distributed/shared_memory/shared_memory_reduce.h"
#include "distributed/shared_memory/shared_memory_segment.h"
#include "distributed/shared_memory/shared_memory_spans.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed::shared_memory_test {
namespace {

using cairn::testing::RankOutcome;
using cairn::testing::run_processes;
using cairn::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(SharedMemorySegment, IsOpenedByItsTicketUntilTheLastLeaves) {
  auto mine = SharedMemorySegment::create(1 << 16);
  mine.join(0);
  EXPECT_EQ(mine.size(), 1U << 16);
  std::memcpy(mine.data(), "hello", 6);
  const std::string ticket = mine.ticket();
  int told[2];
  int asked[2];
  ASSERT_EQ(::pipe(told), 0);
  ASSERT_EQ(::pipe(asked), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto theirs = SharedMemorySegment::open(ticket);
    theirs.join(1);
    const bool same = std::memcmp(theirs.data(), "hello", 6) == 0;
    std::memcpy(theirs.data() + 100, "back", 5);
    const char answer = same && theirs.holds(0) ? 'y' : 'n';
    char never = 0;
    ::_exit(
        ::write(told[1], &answer, 1) == 1 && ::read(asked[0], &never, 1) == 1
            ? 0
            : 1);
  }
  char answer = 0;
  ASSERT_EQ(::read(told[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_STREQ(reinterpret_cast<const char*>(mine.data() + 100), "back");
  EXPECT_TRUE(mine.holds(1));
  EXPECT_FALSE(mine.holds(2));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(mine.holds(1));
  for (const int fd : {told[0], told[1], asked[0], asked[1]}) {
    ::close(fd);
  }
}

TEST(SharedMemorySegment, SaysWhyItIsOutOfReach) {
  const auto mine = SharedMemorySegment::create(4096);
  const std::string ticket = mine.ticket();
  const auto with = [&](std::size_t field, const std::string& value) {
    std::vector<std::string> fields(1);
    for (const char c : ticket) {
      if (c == ' ') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    fields.at(field) = value;
    return fmt::format("{}", fmt::join(fields, " "));
  };
  const auto why = [](const std::string& text) {
    return refusal([&] { SharedMemorySegment::open(text); });
  };
  EXPECT_EQ(why(ticket), "not refused");
  EXPECT_THAT(why(with(0, "other-boot")), HasSubstr("are two machines"));
  EXPECT_THAT(
      why(with(1, "4194305")), // above the largest process number
      AllOf(HasSubstr("No such file"), HasSubstr("another container")));
  EXPECT_THAT(why(with(2, "0")), HasSubstr("/fd/0 is another file"));
  EXPECT_THAT(why(with(3, "cairn-0")), HasSubstr("is another file"));
  EXPECT_THAT(why("nonsense"), HasSubstr("no ticket"));
  EXPECT_THAT(why(""), HasSubstr("no ticket"));
}

TEST(SharedMemorySegment, MoreThanTheLimitIsRefused) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::string text =
      refusal([] { SharedMemorySegment::create(1 << 16); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(text, HasSubstr("ulimit -f"));
}

TEST(SharedMemorySpans, CutAcrossPieces) {
  std::string a = "abc";
  std::string b;
  std::string c = "defgh";
  Spans spans;
  for (std::string* piece : {&a, &b, &c}) {
    spans.add(piece->data(), piece->size());
  }
  ASSERT_EQ(spans.size(), 8U);
  for (std::size_t begin = 0; begin <= 9; ++begin) {
    for (std::size_t end = begin; end <= 10; ++end) {
      std::string got(16, '.');
      spans.copy_to(reinterpret_cast<std::byte*>(got.data()), begin, end);
      const std::string all = "abcdefgh";
      const std::string expected =
          begin < 8 ? all.substr(begin, end - begin) : "";
      EXPECT_EQ(got.substr(0, got.find('.')), expected) << begin << " " << end;
    }
  }
  const Spans middle = spans.slice(2, 5);
  middle.copy_from(reinterpret_cast<const std::byte*>("XYZ"), 0, 3);
  EXPECT_EQ(a + c, "abXYZfgh");
  EXPECT_TRUE(middle == spans.slice(2, 5));
  EXPECT_FALSE(middle == spans.slice(2, 4));
}

/// Reduces one value per rank.
template <typename T>
T reduce_values(c10::ScalarType dtype, ReduceOp op, std::vector<T> values) {
  constexpr std::size_t width = 1030; // more than a block, and not a whole one
  std::vector<std::vector<T>> rows;
  std::vector<const void*> inputs;
  for (const T value : values) {
    rows.emplace_back(width, value);
  }
  for (const auto& row : rows) {
    inputs.push_back(row.data());
  }
  // Reduces in place, as all_reduce does.
  reduce_kernel(dtype, op)(
      rows.back().data(),
      inputs.data(),
      static_cast<int>(values.size()),
      width);
  for (const T value : rows.back()) {
    EXPECT_EQ(std::memcmp(&value, &rows.back()[0], sizeof(T)), 0);
  }
  return rows.back()[0];
}

TEST(SharedMemoryReduce, AddsInTheOrderOfRanks) {
  const auto sum = [](std::vector<float> values) {
    return reduce_values(at::kFloat, ReduceOp::sum, std::move(values));
  };
  EXPECT_EQ(sum({1e8F, -1e8F, 1}), 1);
  EXPECT_EQ(sum({1, 1e8F, -1e8F}), 0);
  EXPECT_EQ(sum({1, 1e8F, -1e8F, 3}), 3);
}

TEST(SharedMemoryReduce, RoundsHalfPrecisionOnce) {
  const auto sum = [](auto dtype, ReduceOp op, auto... values) {
    using T = std::common_type_t<decltype(values)...>;
    return static_cast<float>(
        reduce_values<T>(dtype, op, {static_cast<T>(values)...}));
  };
  using c10::BFloat16;
  using c10::Half;
  // The sum 256 + 1 is 256 in bf16, 2048 + 1 is 2048 in fp16.
  EXPECT_EQ(
      sum(at::kBFloat16,
          ReduceOp::sum,
          BFloat16(256.F),
          BFloat16(1.F),
          BFloat16(1.F)),
      258);
  EXPECT_EQ(
      sum(at::kHalf, ReduceOp::sum, Half(2048.F), Half(1.F), Half(1.F)),
      2050);
  EXPECT_EQ(
      sum(at::kHalf, ReduceOp::mean, Half(60000.F), Half(60000.F)),
      60000);
}

/// Every finite value of 16 bits and the values beside the middle to the next,
/// made as a sum: there and back as libtorch converts.
template <typename T>
void expect_conversions_of_libtorch() {
  std::vector<T> values;
  for (std::uint32_t bits = 0; bits < 1 << 16; ++bits) {
    values.emplace_back(static_cast<std::uint16_t>(bits), T::from_bits());
  }
  const c10::ScalarType dtype = c10::CppTypeToScalarType<T>::value;
  const at::Tensor all =
      at::from_blob(values.data(), {1 << 16}, at::TensorOptions(dtype));
  for (const int shift : {0, 1, 77, 4099, 40961}) {
    const at::Tensor other = all.roll(shift);
    // The number is odd, so that the last values are not a whole step.
    const at::Tensor a = all.narrow(0, 0, 65533);
    const at::Tensor b = other.narrow(0, 0, 65533);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      at::Tensor expected = a.to(at::kFloat) + b.to(at::kFloat);
      if (op == ReduceOp::mean) {
        expected /= 2;
      }
      expected = expected.to(dtype);
      const at::Tensor got = at::empty_like(expected);
      const void* const inputs[] = {a.data_ptr(), b.data_ptr()};
      reduce_kernel(dtype, op)(got.data_ptr(), inputs, 2, 65533);
      EXPECT_TRUE(at::allclose(got, expected, 0, 0, /*equal_nan=*/true))
          << dtype << " " << shift;
    }
  }
}

TEST(SharedMemoryReduce, HalfPrecisionIsConvertedAsLibtorchDoes) {
  expect_conversions_of_libtorch<c10::Half>();
  expect_conversions_of_libtorch<c10::BFloat16>();
}

TEST(SharedMemoryReduce, NotANumberWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    EXPECT_TRUE(std::isnan(reduce_values<float>(at::kFloat, op, {nan, 1})));
    EXPECT_TRUE(std::isnan(reduce_values<float>(at::kFloat, op, {1, nan})));
    EXPECT_TRUE(std::isnan(reduce_values<float>(at::kFloat, op, {1, nan, 2})));
  }
}

TEST(SharedMemoryReduce, IntegersWrapAround) {
  EXPECT_EQ(
      reduce_values<std::int8_t>(at::kChar, ReduceOp::sum, {127, 1}),
      -128);
  EXPECT_EQ(
      reduce_values<std::int16_t>(at::kShort, ReduceOp::product, {-1, -32768}),
      -32768);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(
      reduce_values<std::int64_t>(at::kLong, ReduceOp::sum, {most, 1, 0}),
      std::numeric_limits<std::int64_t>::min());
}

TEST(SharedMemoryReduce, MeanOfThreeIsDivided) {
  // A third of a third differs from the product with the reciprocal.
  EXPECT_EQ(
      reduce_values<double>(at::kDouble, ReduceOp::mean, {1, 3, 3}),
      7.0 / 3);
}

/// Runs with debug lines on; `wanted` by rank.
std::vector<RankOutcome> outcomes_of_logging(
    int ranks,
    const std::function<bool(int rank)>& wanted) {
  return run_processes({.ranks = ranks}, [&](const InitOptions& given) {
    InitOptions options = given;
    options.shared_memory = wanted(options.environment.rank);
    options.logger = Logger(
        {.rank = options.environment.rank,
         .world_size = ranks,
         .least = LogLevel::debug});
    const World world = init_distributed(options);
    EXPECT_EQ(world.group().backend(), "gloo");
    const at::Tensor sum = world.group().all_reduce(at::ones({9})).wait();
    EXPECT_EQ(sum[8].item<int>(), ranks);
  });
}

TEST(SharedMemoryGroup, IsChosenOnOneMachine) {
  for (const RankOutcome& outcome :
       outcomes_of_logging(3, [](int) { return true; })) {
    EXPECT_THAT(
        outcome.log,
        HasSubstr("goes through shared memory, 6148 KiB for 3 ranks"));
  }
}

TEST(SharedMemoryGroup, IsLeftForGlooWhenOneRankDoesNotWantIt) {
  for (const int refuser : {0, 2}) {
    for (const RankOutcome& outcome :
         outcomes_of_logging(3, [&](int rank) { return rank != refuser; })) {
      EXPECT_THAT(
          outcome.log,
          AllOf(
              HasSubstr("goes through gloo, not shared memory: "),
              HasSubstr(fmt::format("rank {}: turned off", refuser)),
              Not(HasSubstr("goes through shared memory"))));
    }
  }
}

/// Noise that differs on every rank and at every place, with bits to lose.
at::Tensor noise(int rank, std::int64_t count) {
  return (at::arange(count) * (2 * rank + 7919))
             .remainder(10007)
             .to(at::kFloat) /
      (3.0F + static_cast<float>(rank));
}

/// ((rank 0 + rank 1) + rank 2) …, to the bit.
at::Tensor sum_in_order(int ranks, std::int64_t count) {
  at::Tensor sum = noise(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    sum += noise(rank, count);
  }
  return sum;
}

/// Counts around the largest small call, one part, one slot and several rounds.
std::vector<std::int64_t> edge_counts(int ranks) {
  constexpr std::int64_t small = (256 << 10) / 4;
  constexpr std::int64_t slot = SharedMemoryChannel::slot_bytes / 4;
  std::vector<std::int64_t> counts = {1, 31, 33};
  for (const std::int64_t edge : {small / ranks, slot / ranks, slot}) {
    for (const std::int64_t off : {-33, -1, 0, 1, 17}) {
      counts.push_back(edge + off);
    }
  }
  counts.push_back(2 * slot + 5);
  return counts;
}

TEST(SharedMemoryGroup, SumsAreTheSameBitsEverywhere) {
  for (const int ranks : {2, 3, 5}) {
    run_ranks(ranks, [&](const ProcessGroup& group) {
      const int rank = group.rank();
      const std::vector<std::int64_t> counts = edge_counts(ranks);
      const std::int64_t most =
          ranks * *std::max_element(counts.begin(), counts.end());
      const at::Tensor mine = noise(rank, most);
      const at::Tensor sums = sum_in_order(ranks, most);
      const at::Tensor roots = noise(ranks - 1, most);
      const auto first = [](const at::Tensor& x, std::int64_t count) {
        return x.narrow(0, 0, count);
      };
      for (const std::int64_t count : counts) {
        const at::Tensor x = first(mine, count).clone();
        group.all_reduce(x).wait();
        ASSERT_TRUE(at::equal(x, first(sums, count))) << count;

        const at::Tensor whole = first(mine, count * ranks).clone();
        const at::Tensor place = whole.narrow(0, rank * count, count);
        const at::Tensor part = group.reduce_scatter(whole).wait();
        ASSERT_TRUE(at::equal(part, sums.narrow(0, rank * count, count)))
            << count;

        // Gathers in place: the part is where it belongs already.
        place.copy_(part);
        group.all_gather_into(whole, place).wait();
        ASSERT_TRUE(at::equal(whole, first(sums, count * ranks))) << count;

        x.copy_(first(mine, count));
        group.broadcast(x, ranks - 1).wait();
        ASSERT_TRUE(at::equal(x, first(roots, count))) << count;
      }
    });
  }
}

TEST(SharedMemoryGroup, ListsAreCutAnywhere) {
  run_ranks(3, [](const ProcessGroup& group) {
    // All tensors together take more than a round, with the cuts in odd places.
    std::vector<at::Tensor> xs;
    std::vector<at::Tensor> expected;
    for (int i = 0; i < 40; ++i) {
      const std::int64_t count = 3 * (1 + (i * 7919) % 6007);
      xs.push_back(noise(group.rank() + i, count));
      expected.push_back(
          (noise(i, count) + noise(1 + i, count)) + noise(2 + i, count));
    }
    const auto parts = group.reduce_scatter(xs).wait_all();
    const auto sums = group.all_reduce(xs).wait_all();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      ASSERT_TRUE(at::equal(sums[i], expected[i])) << i;
      const std::int64_t width = expected[i].numel() / 3;
      ASSERT_TRUE(at::equal(
          parts[i],
          expected[i].narrow(0, group.rank() * width, width)))
          << i;
    }
    const auto wholes = group.all_gather(parts).wait_all();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      ASSERT_TRUE(at::equal(wholes[i], expected[i])) << i;
    }
  });
}

TEST(SharedMemoryGroup, CallsGoOnWhileTheCallerComputes) {
  run_ranks(2, [](const ProcessGroup& group) {
    const at::Tensor x = at::ones({1 << 20});
    Pending sum = group.all_reduce(x);
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!sum.done() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(sum.done());
    EXPECT_EQ(x[0].item<int>(), 2);
    group.barrier();
  });
}

TEST(SharedMemoryGroup, ManyThreadsOnManyGroups) {
  run_ranks(2, [](const ProcessGroup& group) {
    std::vector<ProcessGroup> groups;
    for (int i = 0; i < 4; ++i) {
      groups.push_back(group.subgroup({0, 1}));
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        // Calls of different sizes, waited for in the reverse order.
        for (int round = 0; round < 20; ++round) {
          std::vector<Pending> pending;
          std::vector<at::Tensor> xs;
          for (const std::int64_t count : {100, 100000, 3}) {
            xs.push_back(at::full({count}, t + round + group.rank() + 0.5));
            pending.push_back(
                groups[static_cast<std::size_t>(t)].all_reduce(xs.back()));
          }
          while (!pending.empty()) {
            pending.pop_back();
          }
          for (const at::Tensor& x : xs) {
            EXPECT_EQ(x[x.numel() - 1].item<double>(), 2 * (t + round) + 2);
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    group.barrier();
  });
}

TEST(SharedMemoryGroup, ARankKilledInTheMiddleIsNoticed) {
  run_ranks(
      {.ranks = 3, .notes_grace = 300ms, .dies = {1}},
      [](const World& world) {
        const ProcessGroup& group = world.group();
        std::thread killer;
        if (world.rank() == 1) {
          killer = std::thread([] {
            std::this_thread::sleep_for(150ms);
            ::kill(::getpid(), SIGKILL);
          });
        }
        const at::Tensor x = at::ones({1 << 20});
        const auto begin = std::chrono::steady_clock::now();
        const std::string text = refusal([&] {
          while (std::chrono::steady_clock::now() - begin < 20s) {
            group.all_reduce(x, ReduceOp::mean).wait();
          }
        });
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s);
        EXPECT_THAT(
            text,
            AllOf(
                HasSubstr("rank 1 does not answer"),
                HasSubstr("connection to rank 1 is lost")));
      });
}

TEST(SharedMemoryGroup, AnotherCallIsNoticedAtOnce) {
  // The error comes long before the timeout of twenty seconds.
  run_ranks(2, [](const ProcessGroup& group) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(
        refusal([&] {
          group.all_reduce(at::ones({group.rank() == 0 ? 8 : 4096})).wait();
        }),
        AllOf(
            HasSubstr("[8]"),
            HasSubstr("[4096]"),
            HasSubstr("makes another call")));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  });
}

} // namespace
} // namespace cairn::distributed::shared_memory_test
