#include <cairn/base/error.h>
#include <cairn/optim/rule.h>
#include <fmt/format.h>

namespace cairn::optim {

Rule::~Rule() = default;

void Rule::update(const Stretch&, const GroupValues&, const StepValues&, Place)
    const {
  throw InternalError(
      {.what = fmt::format("{} cannot be updated element by element", name()),
       .remedy = "see its own header"});
}

} // namespace cairn::optim
