#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

/// Size of an image, whose values are stored channel by channel, row by row.
struct ImageShape {
  std::size_t channels = 3;
  std::size_t height = 32;
  std::size_t width = 32;
  constexpr std::size_t size() const noexcept {
    return channels * height * width;
  }
  bool operator==(const ImageShape&) const = default;
};

struct ImageTransformOptions {
  /// Per channel: pixels become (byte / 255 - mean) / deviation, which equals
  /// torchvision's ToTensor and Normalize bit for bit.
  std::array<float, 3> mean = {0.5F, 0.5F, 0.5F};
  std::array<float, 3> deviation = {0.5F, 0.5F, 0.5F};
  /// Black pixels added on each side before the image is cut out at a random
  /// place.
  std::size_t crop_padding = 0;
  bool flip = false; ///< mirrors half of the images, left to right
};

/// Position of the part cut out of an image, and whether it is flipped.
struct ImageView {
  std::size_t top = 0; ///< counted from the padded edge
  std::size_t left = 0;
  bool flipped = false;
};

/// Turns the bytes of an image into the numbers that a model takes.
class ImageTransform {
 public:
  /// Throws UsageError for more than three channels and for a deviation of
  /// zero.
  ImageTransform(ImageShape shape, const ImageTransformOptions& options);

  const ImageTransformOptions& options() const noexcept { return options_; }

  void apply(
      std::span<const std::byte> image,
      const ImageView& view,
      std::vector<float>& pixels) const;

 private:
  ImageShape shape_;
  ImageTransformOptions options_;
  std::array<std::array<float, 256>, 3> value_{}; ///< by channel and byte
};

} // namespace cairn::data
