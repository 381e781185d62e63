#pragma once

namespace cairn::launch {

/// A TCP port that nothing on this machine listens on right now. Throws
/// CommError when the system has none.
int free_port();

} // namespace cairn::launch
