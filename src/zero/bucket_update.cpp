#include "zero/bucket_update.h"

#include <cairn/base/error.h>

namespace cairn::zero {

std::unique_ptr<BucketUpdate> make_bucket_update(
    const Layout& layout,
    const optim::Rule& rule,
    const RankGroups& owners) {
  switch (rule.scope()) {
    case optim::Scope::elementwise:
      return make_elementwise_update(layout, rule);
    case optim::Scope::parameter_norms:
      return make_lamb_update(layout, rule, owners);
    case optim::Scope::whole_matrices:
      return make_muon_update(layout, rule, owners);
  }
  throw InternalError({.what = "a rule of unknown scope"});
}

} // namespace cairn::zero
