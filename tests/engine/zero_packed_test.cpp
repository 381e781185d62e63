#include "zero/reduce/packed.h"
#include "zero/reduce/packed_by_operators.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <limits>

namespace cairn::zero_packed_test {
namespace {

/// The GPU's operators, run on the CPU, give the kernels' bits.
TEST(ZeroPacked, OperatorsGiveTheKernelsBits) {
  torch::manual_seed(2);
  for (const zero::Wire wire : {zero::Wire::int8, zero::Wire::int4}) {
    for (const std::int64_t count : {64, 256, 4096, 100'000 - 32}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        at::Tensor values = (at::randn({count}) * 0.3).to(type);
        values.narrow(0, 0, 8).zero_();
        if (count > 1000) {
          values[900] = std::numeric_limits<float>::infinity();
          values.narrow(0, 512, 256).zero_();
        }
        const auto plan = zero::blocks_of(wire, count);
        const at::Tensor packed = zero::packed_of(values, wire);
        ASSERT_EQ(packed.numel(), plan.bytes());
        EXPECT_TRUE(at::equal(packed, zero::packed_by_operators(values, plan)));
        const at::Tensor back = at::empty_like(values);
        zero::unpack(packed, wire, back);
        EXPECT_TRUE(at::equal(
            back.nan_to_num(7),
            zero::unpacked_by_operators(packed, plan).to(type).nan_to_num(7)));
      }
    }
  }
}

} // namespace
} // namespace cairn::zero_packed_test
