#include <cairn/optim/parameter_groups.h>

namespace cairn::optim {

void GroupValuesPatch::apply_to(GroupValues& values) const {
  values.lr = lr.value_or(values.lr);
  values.weight_decay = weight_decay.value_or(values.weight_decay);
  values.betas = betas.value_or(values.betas);
  values.eps = eps.value_or(values.eps);
  values.momentum = momentum.value_or(values.momentum);
}

} // namespace cairn::optim
