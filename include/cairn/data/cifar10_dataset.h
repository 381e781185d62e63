#pragma once

#include <cairn/base/counter_random.h>
#include <cairn/base/mapped_file.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
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

struct Cifar10Options {
  bool train = true; ///< data_batch_1.bin to _5.bin; false: test_batch.bin
  std::uint64_t seed = 1234;
  ImageTransformOptions transform{};
};

struct ImageSample {
  std::vector<float> pixels; ///< channel by channel, row by row
  std::int64_t label = 0;
};

/// CIFAR-10 in its binary version: records of a label and 3 x 32 x 32 bytes.
/// Crops and flips depend on (seed, index) alone. Any number of threads may
/// read, each into its own sample.
class Cifar10Dataset {
 public:
  using Sample = ImageSample;
  static constexpr ImageShape shape{3, 32, 32};
  static constexpr std::array<std::string_view, 10> class_names{
      "airplane",
      "automobile",
      "bird",
      "cat",
      "deer",
      "dog",
      "frog",
      "horse",
      "ship",
      "truck"};

  /// Opens the dataset. `path` is the folder of the .bin files, a folder that
  /// holds it as cifar-10-batches-bin, or a single .bin file. Throws DataError
  /// for a file that is missing or does not consist of whole records.
  explicit Cifar10Dataset(
      const std::filesystem::path& path,
      const Cifar10Options& options = {});

  /// The number of images, which are the samples of one epoch.
  std::size_t size() const noexcept;

  /// The bytes of an image as stored.
  std::span<const std::byte> image(std::size_t index) const;
  /// The label of an image; throws DataError if it is above 9.
  std::int64_t label(std::size_t index) const;

  /// Reads a sample; image i of epoch e has the index e * size() + i. Allocates
  /// nothing when `sample` has been used before.
  void read(std::size_t index, Sample& sample) const;

 private:
  struct Batch {
    std::filesystem::path path;
    MappedFile file;
    std::size_t end = 0; ///< images up to the end of this batch
  };
  struct Record {
    const Batch& batch;
    std::size_t number = 0; ///< index in the batch
    std::span<const std::byte> bytes;
  };
  void open(const std::filesystem::path& file);
  Record record(std::size_t index) const;

  Cifar10Options options_;
  ImageTransform transform_;
  CounterRandom random_;
  std::vector<Batch> batches_;
};

} // namespace cairn::data
