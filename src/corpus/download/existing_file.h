#pragma once

#include "corpus/internal/download.h"

namespace cairn::corpus {

/// Checks the file that already has the final name. Throws DataError unless it
/// has the requested size and checksum.
DownloadReport check_existing(const DownloadRequest& request);

} // namespace cairn::corpus
