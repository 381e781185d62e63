#include "base/internal/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_model.h"
#include "support/child_process.h"

namespace cairn::cpu_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_in_child;

TEST(CpuFeatures, AreThoseOfThisArchitecture) {
  const CpuFeatures features = CpuFeatures::detect();
#if defined(__aarch64__)
  EXPECT_TRUE(features.neon);
  EXPECT_FALSE(features.avx2);
#else
  EXPECT_FALSE(features.neon);
  EXPECT_EQ(features.crc32c, features.sse42);
  EXPECT_TRUE(features.avx2 || !features.avx512f);
#endif
  EXPECT_EQ(features, CpuFeatures::detect());
}

TEST(CpuFeatures, AreListedByName) {
  EXPECT_EQ(to_string(CpuFeatures{}), "");
  CpuFeatures some;
  some.avx2 = true;
  some.fma = true;
  some.crc32c = true;
  EXPECT_EQ(to_string(some), "avx2 fma crc32c");
}

TEST(CpuInfo, DescribesThisMachine) {
  const CpuInfo info = CpuInfo::detect();
  EXPECT_THAT(info.model, Not(::testing::IsEmpty()));
  EXPECT_GE(info.physical_cores, 1);
  EXPECT_GE(info.logical_cpus, info.physical_cores);
  EXPECT_LE(info.logical_cpus, static_cast<int>(allowed_cpus().size()));
  EXPECT_GT(info.memory_bytes, 64U << 20);
}

TEST(CpuInfo, CountsOnlyWhatAffinityAllows) {
  const int status = run_in_child([] {
    const int last = allowed_cpus().back();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) {
      return 2;
    }
    const CpuInfo info = CpuInfo::detect();
    return allowed_cpus() == std::vector{last} && info.logical_cpus == 1 &&
            info.physical_cores == 1
        ? 0
        : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(CpuModel, IsReadFromEitherKindOfKernel) {
  EXPECT_EQ(
      cpu_model("processor\t: 0\nvendor_id\t: GenuineIntel\n"
                "model name\t: Intel(R) Xeon(R) Platinum 8480C\n"),
      "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(
      cpu_model("processor\t: 0\nCPU implementer\t: 0x41\n"
                "CPU part\t: 0xd40\n\nprocessor\t: 1\n"),
      "Neoverse-V1");
  EXPECT_EQ(
      cpu_model("CPU implementer\t: 0x99\nCPU part\t: 0x123"),
      "ARM implementer 0x99 part 0x123");
}

TEST(CpuModel, TakesAnyText) {
  EXPECT_EQ(cpu_model(""), "unknown");
  EXPECT_EQ(cpu_model(":\n::\n\n:"), "unknown");
  EXPECT_EQ(cpu_model("model name\t:\n"), "unknown");
  EXPECT_EQ(cpu_model("model name"), "unknown");
  std::mt19937 random(1);
  constexpr std::string_view alphabet =
      "model name:\n\t CPUpartimplementer\xff";
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 60, ' ');
    for (char& c : text) {
      c = alphabet[random() % alphabet.size()];
    }
    EXPECT_FALSE(cpu_model(text).empty());
  }
}

} // namespace
} // namespace cairn::cpu_test
