#include <cairn/data/cifar10_dataset.h>

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cairn::data {

ImageTransform::ImageTransform(
    ImageShape shape,
    const ImageTransformOptions& options)
    : shape_(shape), options_(options) {
  if (shape.channels > value_.size()) {
    throw UsageError(
        {.what = "images have at most three channels",
         .values = fmt::format("{}", shape.channels)});
  }
  if (options.crop_padding > std::min(shape.height, shape.width)) {
    throw UsageError(
        {.what = "the padding of images is wider than they are",
         .values = fmt::format("{}", options.crop_padding)});
  }
  for (std::size_t channel = 0; channel < shape.channels; ++channel) {
    const float deviation = options.deviation[channel];
    if (!std::isfinite(options.mean[channel]) || !std::isfinite(deviation) ||
        deviation == 0.0F) {
      throw UsageError(
          {.what = "images cannot be normalized by these numbers",
           .values = fmt::format(
               "mean {}, deviation {}",
               options.mean[channel],
               deviation)});
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      value_[channel][byte] =
          (static_cast<float>(byte) / 255.0F - options.mean[channel]) /
          deviation;
    }
  }
}

void ImageTransform::apply(
    std::span<const std::byte> image,
    const ImageView& view,
    std::vector<float>& pixels) const {
  const std::size_t padding = options_.crop_padding;
  if (image.size() != shape_.size() || view.top > 2 * padding ||
      view.left > 2 * padding) {
    throw InternalError(
        {.what = "not an image of this shape, or a view outside of it",
         .values = fmt::format(
             "{} bytes, top {}, left {}",
             image.size(),
             view.top,
             view.left)});
  }
  pixels.resize(shape_.size());
  // The columns of the view that the image fills, and where they begin in the
  // image.
  const std::size_t first = padding - std::min(padding, view.left);
  const std::size_t offset = view.left - std::min(padding, view.left);
  const std::size_t last = first + shape_.width - std::max(first, offset);
  for (std::size_t channel = 0; channel < shape_.channels; ++channel) {
    const auto& value = value_[channel];
    for (std::size_t y = 0; y < shape_.height; ++y) {
      float* row = pixels.data() + (channel * shape_.height + y) * shape_.width;
      std::fill_n(row, shape_.width, value[0]);
      const std::size_t from = y + view.top;
      if (from >= padding && from < padding + shape_.height) {
        const std::byte* source = image.data() +
            (channel * shape_.height + from - padding) * shape_.width + offset;
        for (std::size_t x = first; x < last; ++x) {
          row[x] = value[static_cast<std::size_t>(source[x - first])];
        }
      }
      if (view.flipped) {
        std::reverse(row, row + shape_.width);
      }
    }
  }
}

} // namespace cairn::data
