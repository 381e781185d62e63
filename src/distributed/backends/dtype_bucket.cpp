#include "distributed/backends/dtype_bucket.h"

#include <algorithm>

namespace cairn::distributed {

std::vector<at::Tensor> DtypeBucket::pick(
    const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> result;
  for (const std::size_t i : members) {
    result.push_back(tensors[i]);
  }
  return result;
}

std::vector<DtypeBucket> bucket_by_dtype(
    const std::vector<at::Tensor>& tensors) {
  std::vector<DtypeBucket> buckets;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::ScalarType dtype = tensors[i].scalar_type();
    auto found = std::find_if(
        buckets.begin(),
        buckets.end(),
        [&](const DtypeBucket& bucket) { return bucket.dtype == dtype; });
    if (found == buckets.end()) {
      found = buckets.insert(found, DtypeBucket{dtype, {}});
    }
    found->members.push_back(i);
  }
  return buckets;
}

} // namespace cairn::distributed
