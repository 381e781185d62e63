#include <cairn/data/cifar10_dataset.h>

#include "data/samples/sample_random.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace cairn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t record_size = 1 + Cifar10Dataset::shape.size();

std::vector<fs::path> batch_files(const fs::path& path, bool train) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    return {path};
  }
  const fs::path inner = path / "cifar-10-batches-bin";
  const fs::path folder = fs::is_directory(inner, ignored) ? inner : path;
  if (!train) {
    return {folder / "test_batch.bin"};
  }
  std::vector<fs::path> files;
  for (int i = 1; i <= 5; ++i) {
    files.push_back(folder / fmt::format("data_batch_{}.bin", i));
  }
  return files;
}

} // namespace

Cifar10Dataset::Cifar10Dataset(
    const fs::path& path,
    const Cifar10Options& options)
    : options_(options),
      transform_(shape, options.transform),
      random_(options.seed, "cifar10") {
  for (const fs::path& file : batch_files(path, options.train)) {
    open(file);
  }
}

void Cifar10Dataset::open(const fs::path& path) {
  MappedFile file(path, MappedFile::Advice::random);
  const std::size_t bytes = file.bytes().size();
  if (bytes == 0 || bytes % record_size != 0) {
    throw DataError(
        {.what = "not CIFAR-10's binary version, or torn",
         .where = path.string(),
         .values = fmt::format(
             "{} bytes, which are not whole records of {}",
             bytes,
             record_size),
         .remedy = "fetch it again: cairn data download cifar10"});
  }
  batches_.push_back({path, std::move(file), size() + bytes / record_size});
}

std::size_t Cifar10Dataset::size() const noexcept {
  return batches_.empty() ? 0 : batches_.back().end;
}

Cifar10Dataset::Record Cifar10Dataset::record(std::size_t index) const {
  const std::size_t image = index % size();
  const auto batch =
      std::ranges::upper_bound(batches_, image, {}, [](const Batch& one) {
        return one.end;
      });
  const std::size_t number =
      image - (batch == batches_.begin() ? 0 : std::prev(batch)->end);
  return {
      *batch,
      number,
      batch->file.bytes().subspan(number * record_size, record_size)};
}

std::span<const std::byte> Cifar10Dataset::image(std::size_t index) const {
  return record(index).bytes.subspan(1);
}

std::int64_t Cifar10Dataset::label(std::size_t index) const {
  const Record one = record(index);
  const auto label = static_cast<std::size_t>(one.bytes.front());
  if (label >= class_names.size()) {
    throw DataError(
        {.what = "a label of CIFAR-10 is above 9",
         .where = fmt::format(
             "{}: byte {}",
             one.batch.path.string(),
             one.number * record_size),
         .values = fmt::format("{}", label),
         .remedy = "fetch it again: cairn data download cifar10"});
  }
  return static_cast<std::int64_t>(label);
}

void Cifar10Dataset::read(std::size_t index, Sample& sample) const {
  const ImageTransformOptions& options = options_.transform;
  SampleRandom random(random_, index);
  const std::size_t places = 2 * options.crop_padding + 1;
  const ImageView view{
      .top = random.below(places),
      .left = random.below(places),
      .flipped = options.flip && random.below(2) == 1};
  sample.label = label(index);
  transform_.apply(image(index), view, sample.pixels);
}

} // namespace cairn::data
