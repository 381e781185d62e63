#pragma once

#include "corpus/download/archive_output.h"
#include "data/internal/byte_stream.h"

namespace cairn::corpus {

/// Unpacks a tar: POSIX ustar and pax, and GNU's long names.
void unpack_tar(data::ByteStream& stream, ArchiveOutput& output);

} // namespace cairn::corpus
