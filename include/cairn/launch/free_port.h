#pragma once

namespace cairn::launch {

/// A TCP port that nothing on this machine listens on just now. Throws
/// CommError when the system has none to give.
int free_port();

} // namespace cairn::launch
