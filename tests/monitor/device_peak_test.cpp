#include "monitor/internal/device_peak.h"

#include <gtest/gtest.h>

namespace cairn::monitor {
namespace {

double tera(const char* device, Arithmetic arithmetic = Arithmetic::half) {
  const auto peak = known_peak(device, arithmetic);
  return peak ? peak->flops / 1e12 : 0;
}

TEST(DevicePeak, IsDenseAndByWholeWords) {
  EXPECT_EQ(tera("NVIDIA H100 80GB HBM3"), 989.5);
  EXPECT_EQ(tera("NVIDIA H100 PCIe"), 756);
  EXPECT_EQ(tera("NVIDIA H200"), 989.5);
  EXPECT_EQ(tera("NVIDIA GH200 480GB"), 989.5);
  EXPECT_EQ(tera("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_EQ(tera("NVIDIA A10"), 125);
  EXPECT_EQ(tera("Tesla V100-SXM2-16GB"), 125);
  EXPECT_EQ(tera("NVIDIA A100-SXM4-80GB", Arithmetic::full), 19.5);
  EXPECT_EQ(tera("Neoverse-N1"), 0);
  EXPECT_EQ(tera(""), 0);
}

TEST(DevicePeak, SaysWhatItIs) {
  EXPECT_EQ(
      known_peak("NVIDIA H200", Arithmetic::half)->source,
      "989.5 TFLOP/s of H200 (dense, 16 bits)");
  EXPECT_EQ(stated_peak(0.5).flops, 5e11);
  EXPECT_EQ(stated_peak(0.5).source, "0.5 TFLOP/s as stated");
}

} // namespace
} // namespace cairn::monitor
