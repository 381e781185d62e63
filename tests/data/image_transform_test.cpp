#include <cairn/data/cifar10_dataset.h>

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

namespace cairn::data::image_transform_test {
namespace {

using ::testing::ElementsAre;

/// Options that keep bytes as they are, so that tests can read them.
ImageTransformOptions plain(std::size_t crop_padding = 0) {
  return {
      .mean = {0, 0, 0},
      .deviation = {1.0F / 255, 1.0F / 255, 1.0F / 255},
      .crop_padding = crop_padding};
}

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i + 1);
  }
  return bytes;
}

TEST(ImageTransform, NormalizesAsTorchvision) {
  const ImageTransform transform({3, 1, 2}, {.mean = {0.5F, 0.25F, 0}});
  const std::vector<std::byte> image = {
      std::byte{0},
      std::byte{255},
      std::byte{51},
      std::byte{102},
      std::byte{1},
      std::byte{254}};
  std::vector<float> pixels;
  transform.apply(image, {}, pixels);
  EXPECT_THAT(
      pixels,
      ElementsAre(
          -1.0F,
          1.0F,
          (51.0F / 255.0F - 0.25F) / 0.5F,
          (102.0F / 255.0F - 0.25F) / 0.5F,
          1.0F / 255.0F / 0.5F,
          254.0F / 255.0F / 0.5F));
}

TEST(ImageTransform, CropsWithBlackAround) {
  const ImageTransform transform({1, 2, 3}, plain(1));
  std::vector<float> pixels;
  const auto cut = [&](std::size_t top, std::size_t left, bool flipped) {
    transform.apply(counted(6), {top, left, flipped}, pixels);
    for (float& pixel : pixels) {
      pixel = std::round(pixel);
    }
    return pixels;
  };
  EXPECT_THAT(cut(1, 1, false), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(cut(0, 0, false), ElementsAre(0, 0, 0, 0, 1, 2));
  EXPECT_THAT(cut(2, 2, false), ElementsAre(5, 6, 0, 0, 0, 0));
  EXPECT_THAT(cut(0, 2, false), ElementsAre(0, 0, 0, 2, 3, 0));
  EXPECT_THAT(cut(1, 1, true), ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(cut(1, 0, true), ElementsAre(2, 1, 0, 5, 4, 0));
  EXPECT_THROW(cut(3, 0, false), InternalError);
  EXPECT_THROW(transform.apply(counted(5), {}, pixels), InternalError);
}

TEST(ImageTransform, RefusesWhatCannotBe) {
  EXPECT_THROW(ImageTransform({4, 1, 1}, {}), UsageError);
  EXPECT_THROW(ImageTransform({3, 8, 8}, {.deviation = {1, 0, 1}}), UsageError);
  EXPECT_THROW(
      ImageTransform(
          {3, 8, 8},
          {.mean = {std::numeric_limits<float>::quiet_NaN(), 0, 0}}),
      UsageError);
  EXPECT_THROW(ImageTransform({3, 8, 8}, {.crop_padding = 9}), UsageError);
}

} // namespace
} // namespace cairn::data::image_transform_test
