#pragma once

#include <cairn/monitor/event_file.h>

#include <cstdint>
#include <string>
#include <string_view>

// The records of TensorBoard's event files, as bytes. Times are seconds since
// 1970.

namespace cairn::monitor {

/// The first event of a file; `writer` names the program.
std::string version_event(double time, std::string_view writer);
/// A scalar; its value is stored as fp32.
std::string scalar_event(double time, const Scalar& scalar);
/// A text for TensorBoard's page of texts, under `name`/text_summary.
std::string text_event(
    double time,
    std::int64_t step,
    std::string_view name,
    std::string_view text);

/// The event in TFRecord's frame: length, its checksum, the event, its
/// checksum.
std::string framed(std::string_view event);

} // namespace cairn::monitor
