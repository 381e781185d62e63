#pragma once

#include <cairn/base/file.h>

namespace cairn::launch {

/// A TCP port, and the claim on it.
struct FreePort {
  int number = 0;
  UniqueFd claim; ///< holds off other launchers while it is open
};

/// A TCP port that nothing listened on when it was chosen. While its claim is
/// open, no other call returns it that shares our network, be it in this
/// process, in another one or in another container. Programs that are not
/// Cairn's do not know of the claim. Throws CommError when there is no port.
FreePort free_port();

} // namespace cairn::launch
