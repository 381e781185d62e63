// data_index_bench DOCUMENTS ROUNDS: builds the GPT indices of documents whose
// lengths are index_peer.py's. Beside them, the time of what no builder can do
// without: the two shuffles, and one pass over the lengths, in their own order
// ("bare_s") and in the order of the documents, which is how samples need them
// ("bare_ordered_s").

#include "base/internal/large_buffer.h"
#include "base/internal/numpy_random.h"
#include "measurement.h"

#include <cairn/data/gpt_index.h>

#include <zlib.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace cairn;

constexpr std::int64_t sequence_length = 1024;
constexpr std::uint32_t seed = 1234;

std::vector<std::int32_t> make_lengths(std::size_t count) {
  std::vector<std::int32_t> lengths(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761U);
    lengths[i] = static_cast<std::int32_t>(1 + (mixed >> 8) % 1000);
  }
  return lengths;
}

template <typename T>
LargeBuffer shuffled(std::size_t count, NumpyRandom& random) {
  LargeBuffer buffer(count * sizeof(T));
  const auto values = buffer.as<T>();
  std::iota(values.begin(), values.end(), T{0});
  random.shuffle(values);
  return buffer;
}

std::uint32_t crc(const data::IndexArray& array) {
  const auto bytes = array.bytes();
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: data_index_bench DOCUMENTS ROUNDS\n");
    return 2;
  }
  const auto count = static_cast<std::size_t>(std::stoull(argv[1]));
  const int rounds = std::stoi(argv[2]);
  const auto lengths = make_lengths(count);
  const data::GptIndexRequest request{
      .documents = {0, static_cast<std::int64_t>(count)},
      .sequence_length = sequence_length,
      .seed = seed};
  const data::LengthReader read = [&](std::size_t first,
                                      std::span<std::int32_t> out) {
    std::copy_n(
        lengths.begin() + static_cast<std::ptrdiff_t>(first),
        out.size(),
        out.begin());
  };

  data::GptIndex index;
  const auto seconds = bench::timed(rounds, [&] {
    index = {}; // the old one's memory is not part of the new one's need
    const auto tokens = data::count_tokens(request.documents, read);
    index = data::build_gpt_index(
        request,
        data::GptIndexPlan::make(request, tokens),
        read);
  });
  const auto samples = index.shuffle.size();
  const auto checksum = fmt::format(
      "{:08x}-{:08x}-{:08x}",
      crc(index.documents),
      crc(index.samples),
      crc(index.shuffle));
  index = {};

  std::int64_t sum = 0; // printed, so that the passes are not left out
  const auto bare = bench::timed(rounds, [&] {
    NumpyRandom random(seed);
    shuffled<std::int32_t>(count, random);
    shuffled<std::uint32_t>(samples, random);
    sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  });
  std::int64_t ordered_sum = 0;
  const auto ordered = bench::timed(rounds, [&] {
    NumpyRandom random(seed);
    const auto documents = shuffled<std::int32_t>(count, random);
    shuffled<std::uint32_t>(samples, random);
    ordered_sum = 0;
    for (const auto document : documents.as<std::int32_t>()) {
      ordered_sum += lengths[static_cast<std::size_t>(document)];
    }
  });
  if (sum != ordered_sum) {
    return 1;
  }
  bench::print_seconds(
      seconds,
      fmt::format(
          ", \"bare_s\": {:.5g}, \"bare_ordered_s\": {:.5g}, \"samples_built\":"
          " {}, \"crc\": \"{}\"",
          bare[bare.size() / 2],
          ordered[ordered.size() / 2],
          samples,
          checksum));
}
