#pragma once

namespace cairn::launch {

/// A TCP port that nothing on this machine listens on right now, by chance, and
/// if it can be none of those that the system gives to connections: one of
/// these could be taken again before rank 0 listens on it. Throws CommError
/// when the system has none.
int free_port();

} // namespace cairn::launch
