#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

/// Bytes and floats of an image lie channel by channel, row by row.
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
  /// For each channel: (byte / 255 - mean) / deviation, which is what
  /// torchvision's ToTensor and Normalize give, bit for bit.
  std::array<float, 3> mean = {0.5F, 0.5F, 0.5F};
  std::array<float, 3> deviation = {0.5F, 0.5F, 0.5F};
  /// Cut from an image with so many black pixels around it, at a random place.
  std::size_t crop_padding = 0;
  bool flip = false; ///< left to right, every second image
};

/// Where an image is cut and whether it is flipped.
struct ImageView {
  std::size_t top = 0; ///< with the padding
  std::size_t left = 0;
  bool flipped = false;
};

/// From the bytes of an image to the numbers that a model takes.
class ImageTransform {
 public:
  /// At most three channels; a deviation of zero is a ConfigError.
  ImageTransform(ImageShape shape, const ImageTransformOptions& options);

  const ImageTransformOptions& options() const noexcept { return options_; }

  void apply(
      std::span<const std::byte> image,
      const ImageView& view,
      std::vector<float>& pixels) const;

 private:
  ImageShape shape_;
  ImageTransformOptions options_;
  std::array<std::array<float, 256>, 3> value_{}; ///< of a byte, by channel
};

} // namespace cairn::data
