#pragma once

#include <cairn/corpus/download.h>

namespace cairn::corpus {

/// Looks at what is under the final name already: a DataError unless its size
/// and sum are those that the request wants.
DownloadReport check_existing(const DownloadRequest& request);

} // namespace cairn::corpus
