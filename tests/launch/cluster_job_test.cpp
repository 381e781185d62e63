#include "launch/internal/cluster_job.h"

#include <cairn/base/error.h>

#include <gtest/gtest.h>

namespace cairn::launch::cluster_job_test {
namespace {

TEST(ClusterJob, AsksForResourcesByItsGpus) {
  const auto check = [](int gpus, ResourceRange cpus, ResourceRange memory) {
    EXPECT_EQ(default_cpus(gpus).least, cpus.least);
    EXPECT_EQ(default_cpus(gpus).most, cpus.most);
    EXPECT_EQ(default_memory_gib(gpus).least, memory.least);
    EXPECT_EQ(default_memory_gib(gpus).most, memory.most);
  };
  check(1, {2, 4}, {8, 16});
  check(4, {8, 16}, {128, 256});
  check(8, {16, 32}, {256, 512});
}

TEST(ClusterJob, ReadsMemory) {
  EXPECT_EQ(parse_memory_gib("16", "--memory"), 16);
  EXPECT_EQ(parse_memory_gib("16Gi", "--memory"), 16);
  EXPECT_EQ(parse_memory_gib("16GiB", "--memory"), 16);
  EXPECT_EQ(parse_memory_gib("2Ti", "--memory"), 2048);
  for (const char* bad :
       {"", "Gi", "0", "-1", "16 Gi", "16Mi", "1e3", "99999999999", "16Gi\n"}) {
    EXPECT_THROW(parse_memory_gib(bad, "--memory"), ConfigError) << bad;
  }
}

TEST(ClusterJob, ReadsVolumes) {
  EXPECT_EQ(parse_volume("data:/mnt/a:b").claim, "data");
  EXPECT_EQ(parse_volume("data:/mnt/a:b").path, "/mnt/a:b");
  for (const char* bad : {"", "data", ":/mnt", "data:", "data:mnt"}) {
    EXPECT_THROW(parse_volume(bad), ConfigError) << bad;
  }
}

} // namespace
} // namespace cairn::launch::cluster_job_test
