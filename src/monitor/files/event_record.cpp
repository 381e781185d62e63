#include "monitor/files/event_record.h"

#include "base/internal/crc32c.h"
#include "monitor/files/proto_message.h"

#include <span>

namespace cairn::monitor {
namespace {

// Field numbers of tensorflow.Event, .Summary, .Summary.Value, .TensorProto.
namespace event_field {
constexpr std::uint32_t wall_time = 1, step = 2, file_version = 3, summary = 5,
                        source_metadata = 10;
}
namespace value_field {
constexpr std::uint32_t tag = 1, simple_value = 2, tensor = 8, metadata = 9;
}

ProtoMessage event_at(double time, std::int64_t step) {
  ProtoMessage event;
  event.fixed(event_field::wall_time, time);
  if (step != 0) {
    event.varint(event_field::step, static_cast<std::uint64_t>(step));
  }
  return event;
}

ProtoMessage summary_of(const ProtoMessage& value) {
  return ProtoMessage().message(1, value);
}

/// TFRecord's checksum, rotated and with a constant added: plain checksums of
/// data that contain checksums are weak.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

} // namespace

std::string version_event(double time, std::string_view writer) {
  return event_at(time, 0)
      .bytes(event_field::file_version, "brain.Event:2")
      .message(event_field::source_metadata, ProtoMessage().bytes(1, writer))
      .text();
}

std::string scalar_event(double time, const Scalar& scalar) {
  ProtoMessage value;
  value.bytes(value_field::tag, scalar.name)
      .fixed(value_field::simple_value, static_cast<float>(scalar.value));
  return event_at(time, scalar.step)
      .message(event_field::summary, summary_of(value))
      .text();
}

std::string text_event(
    double time,
    std::int64_t step,
    std::string_view name,
    std::string_view text) {
  constexpr std::uint64_t string_type = 7;
  ProtoMessage shape; // [1]
  shape.message(2, ProtoMessage().varint(1, 1));
  ProtoMessage tensor;
  tensor.varint(1, string_type).message(2, shape).bytes(8, text);
  ProtoMessage metadata;
  metadata.message(1, ProtoMessage().bytes(1, "text"));
  ProtoMessage value;
  value.bytes(value_field::tag, std::string(name) + "/text_summary")
      .message(value_field::tensor, tensor)
      .message(value_field::metadata, metadata);
  return event_at(time, step)
      .message(event_field::summary, summary_of(value))
      .text();
}

std::string framed(std::string_view event) {
  std::string record;
  record.reserve(event.size() + 16);
  append_little_endian(record, static_cast<std::uint64_t>(event.size()));
  append_little_endian(record, masked_crc(record));
  record += event;
  append_little_endian(record, masked_crc(event));
  return record;
}

} // namespace cairn::monitor
