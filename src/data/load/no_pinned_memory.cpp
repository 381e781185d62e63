#include <cairn/base/error.h>
#include <cairn/data/tensor_batch.h>

namespace cairn::data {

HostAllocator pinned_allocator() {
  throw ConfigError(
      {.what = "pinned memory needs GPU support, which this program is not "
               "linked with",
       .remedy = "configure with -DCAIRN_CUDA=ON and link cairn::gpu, or run "
                 "without it"});
}

} // namespace cairn::data
