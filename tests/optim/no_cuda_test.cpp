#include <cairn/base/error.h>
#include <cairn/optim/rule.h>
#include <gmock/gmock.h>

namespace cairn::optim::no_cuda_test {
namespace {

TEST(NoCuda, SaysHowToGetTheGpuKernels) {
  const auto rule = make_rule({.type = "adam", .params = {}});
  try {
    rule->update({}, {}, {}, {.cuda = true});
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("CAIRN_CUDA=ON"));
  }
}

} // namespace
} // namespace cairn::optim::no_cuda_test
