#include <cairn/base/error.h>
#include <cairn/data/tensor_batch.h>

namespace cairn::data {

HostAllocator pinned_allocator() {
  throw ConfigError(
      {.what = "pinned memory needs GPU support, which is not built in",
       .remedy = "configure with -DCAIRN_CUDA=ON, or run without it"});
}

} // namespace cairn::data
