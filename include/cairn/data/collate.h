#pragma once

#include <cairn/base/error.h>
#include <cairn/data/batch.h>
#include <cairn/data/built_datasets.h>
#include <cairn/data/cifar10_dataset.h>
#include <cairn/data/gpt_datasets.h>
#include <cairn/data/masked_datasets.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cairn::data {

// The fields of a sample that go into a batch, under the names of Megatron's
// batches. Your own dataset needs such a function beside its sample type, and
// read(index, Sample&). With size() as well, an empty batch has its columns.

template <typename Visitor>
void visit_fields(const GptSample& sample, Visitor&& visit) {
  visit("tokens", sample.tokens);
  visit("labels", sample.labels);
  visit("loss_mask", sample.loss_mask);
  visit("position_ids", sample.position_ids);
}

template <typename Visitor>
void visit_fields(const BertSample& sample, Visitor&& visit) {
  visit("text", sample.text);
  visit("types", sample.types);
  visit("labels", sample.labels);
  visit("is_random", std::int64_t{sample.is_random});
  visit("padding_mask", sample.padding_mask);
  visit("loss_mask", sample.loss_mask);
  visit("truncated", std::int64_t{sample.truncated});
}

template <typename Visitor>
void visit_fields(const T5Sample& sample, Visitor&& visit) {
  visit("text_enc", sample.encoder_text);
  visit("text_dec", sample.decoder_text);
  visit("labels", sample.labels);
  visit("loss_mask", sample.loss_mask);
  visit("enc_mask", sample.encoder_mask);
  visit("dec_mask", sample.decoder_mask);
  visit("truncated", std::int64_t{sample.truncated});
}

template <typename Visitor>
void visit_fields(const ImageSample& sample, Visitor&& visit) {
  visit("pixels", sample.pixels);
  visit("label", sample.label);
}

namespace detail {

inline std::span<const std::int64_t> as_row(const std::int64_t& value) {
  return {&value, 1};
}
template <typename T>
std::span<const T> as_row(const std::vector<T>& values) {
  return values;
}

template <typename T>
void add_field(
    Batch& batch,
    std::string_view name,
    std::size_t rows,
    std::span<const T> values,
    const HostAllocator& allocate) {
  constexpr auto type =
      std::is_same_v<T, float> ? ElementType::float32 : ElementType::int64;
  batch.add(std::string(name), type, rows, values.size(), allocate);
}

/// The place of a row of values in a batch.
struct RowPlace {
  std::size_t field = 0;
  std::size_t row = 0;
  std::size_t rows = 0; ///< of the batch
};

template <typename T>
void put_row(
    Batch& batch,
    const RowPlace& place,
    std::string_view name,
    std::span<const T> values,
    const HostAllocator& allocate) {
  if (place.row == 0) {
    add_field(batch, name, place.rows, values, allocate);
  }
  const BatchField& field = batch.fields[place.field];
  if (values.size() != field.columns) {
    throw InternalError(
        {.what = "samples of a batch differ in length", .values = field.name});
  }
  std::copy(
      values.begin(),
      values.end(),
      reinterpret_cast<T*>(field.memory.get()) + place.row * field.columns);
}

} // namespace detail

/// Reads the samples, which must have one shape, into the batch.
template <typename Dataset>
void collate(
    const Dataset& dataset,
    std::span<const std::int64_t> indices,
    const HostAllocator& allocate,
    Batch& batch) {
  typename Dataset::Sample sample;
  if (indices.empty()) {
    if constexpr (requires { dataset.size(); }) {
      if (dataset.size() > 0) {
        dataset.read(0, sample); // to learn the shape
      }
    }
    visit_fields(sample, [&](std::string_view name, const auto& value) {
      detail::add_field(batch, name, 0, detail::as_row(value), allocate);
    });
  }
  for (std::size_t row = 0; row < indices.size(); ++row) {
    dataset.read(static_cast<std::size_t>(indices[row]), sample);
    std::size_t field = 0;
    visit_fields(sample, [&](std::string_view name, const auto& value) {
      const auto values = detail::as_row(value);
      detail::put_row(
          batch,
          {.field = field++, .row = row, .rows = indices.size()},
          name,
          values,
          allocate);
    });
  }
}

/// Reads GPT samples from the mapped file straight into the batch.
void collate(
    const BlendedDataset<GptDataset>& dataset,
    std::span<const std::int64_t> indices,
    const HostAllocator& allocate,
    Batch& batch);

} // namespace cairn::data
