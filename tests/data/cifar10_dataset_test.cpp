#include <cairn/data/cifar10_dataset.h>

#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::data::cifar10_dataset_test {
namespace {

using cairn::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Images in which every pixel tells the image, label and column.
std::string batch(int first, int count) {
  std::string bytes;
  for (int image = first; image < first + count; ++image) {
    bytes += static_cast<char>(image % 10);
    for (int pixel = 0; pixel < 3072; ++pixel) {
      bytes += static_cast<char>(image * 7 + pixel % 32);
    }
  }
  return bytes;
}

void write_all(const TemporaryFolder& folder, const std::string& inner = "") {
  std::filesystem::create_directories(folder / inner);
  for (int i = 0; i < 5; ++i) {
    folder.write(
        inner + "data_batch_" + std::to_string(i + 1) + ".bin",
        batch(i * 4, 4));
  }
  folder.write(inner + "test_batch.bin", batch(20, 3));
}

TEST(Cifar10, ReadsAllBatchesInOrder) {
  const TemporaryFolder folder;
  write_all(folder);
  const Cifar10Dataset train(folder.path());
  ASSERT_EQ(train.size(), 20);
  ImageSample sample;
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(train.label(i), static_cast<std::int64_t>(i % 10));
    EXPECT_EQ(train.image(i)[33], static_cast<std::byte>(i * 7 + 1));
    train.read(i, sample);
    EXPECT_EQ(sample.label, static_cast<std::int64_t>(i % 10));
    ASSERT_EQ(sample.pixels.size(), 3072);
    const auto byte = static_cast<float>(i * 7 + 31);
    EXPECT_EQ(sample.pixels[31], (byte / 255.0F - 0.5F) / 0.5F);
  }
  const Cifar10Dataset test(folder.path(), {.train = false});
  EXPECT_EQ(test.size(), 3);
  EXPECT_EQ(test.label(1), 1);
}

TEST(Cifar10, TakesTheFolderAboveOrOneFile) {
  const TemporaryFolder folder;
  write_all(folder, "cifar-10-batches-bin/");
  EXPECT_EQ(Cifar10Dataset(folder.path()).size(), 20);
  EXPECT_EQ(
      Cifar10Dataset(folder / "cifar-10-batches-bin/data_batch_2.bin").size(),
      4);
}

TEST(Cifar10, CropsAndFlipsByEpochAndIndex) {
  const TemporaryFolder folder;
  write_all(folder);
  const Cifar10Options options{.transform = {.crop_padding = 4, .flip = true}};
  const Cifar10Dataset dataset(folder.path(), options);
  const Cifar10Dataset again(folder.path(), options);
  ImageSample one;
  ImageSample two;
  int flipped = 0;
  int changed = 0;
  for (std::size_t index = 0; index < 2000; ++index) {
    dataset.read(index, one);
    EXPECT_EQ(one.label, dataset.label(index));
    again.read(7, two);
    again.read(index, two);
    ASSERT_EQ(one.pixels, two.pixels);
    // Pixels of a row grow to the right, unless flipped.
    flipped += one.pixels[16 * 32 + 10] > one.pixels[16 * 32 + 20];
    again.read(index + 20, two); // the same image an epoch later
    changed += one.pixels != two.pixels;
  }
  EXPECT_NEAR(flipped, 1000, 100);
  EXPECT_GT(changed, 1900);
}

TEST(Cifar10, TornFilesAreErrors) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] { Cifar10Dataset{folder.path()}; },
      ThrowsMessage<DataError>(HasSubstr("data_batch_1.bin")));
  write_all(folder);
  folder.write("data_batch_3.bin", batch(0, 4).substr(1));
  EXPECT_THAT(
      [&] { Cifar10Dataset{folder.path()}; },
      ThrowsMessage<DataError>(
          AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("12291 bytes"))));
  folder.write("data_batch_3.bin", "");
  EXPECT_THROW(Cifar10Dataset{folder.path()}, DataError);
}

TEST(Cifar10, ALabelAboveNineIsAnError) {
  const TemporaryFolder folder;
  std::string bytes = batch(0, 3);
  bytes[2 * 3073] = 10;
  const Cifar10Dataset dataset(folder.write("one.bin", bytes));
  ImageSample sample;
  dataset.read(1, sample);
  EXPECT_THAT(
      [&] { dataset.read(2, sample); },
      ThrowsMessage<DataError>(HasSubstr("one.bin: byte 6146")));
}

TEST(Cifar10, Fuzz) {
  const TemporaryFolder folder;
  const int accepted = cairn::testing::fuzz(
      {.seeds = {batch(0, 1), batch(3, 2)},
       .pieces = {batch(5, 1), std::string(1, '\x0a')},
       .runs = 200},
      [&](const std::string& bytes) {
        const Cifar10Dataset dataset(
            folder.write("fuzz.bin", bytes),
            {.transform = {.crop_padding = 4, .flip = true}});
        ImageSample sample;
        for (std::size_t i = 0; i < dataset.size(); ++i) {
          dataset.read(i, sample);
        }
      });
  EXPECT_GT(accepted, 2);
}

} // namespace
} // namespace cairn::data::cifar10_dataset_test
