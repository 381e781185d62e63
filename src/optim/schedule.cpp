#include <cairn/optim/schedule.h>

namespace cairn::optim {

Schedule::~Schedule() = default;

} // namespace cairn::optim
