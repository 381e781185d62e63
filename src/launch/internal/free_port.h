#pragma once

namespace cairn::launch {

/// A TCP port that nothing on this machine listens on right now. Launchers that
/// ask at the same time get different ones, as the system would not promise,
/// and so does a launcher that has started its job again. Throws CommError when
/// there is none.
int free_port(int restarts = 0);

} // namespace cairn::launch
