#pragma once

#include <cairn/base/counter_random.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

// Pictures that can be told apart, in CIFAR-10's binary format: what the
// example learns where the real ones are not at hand.

namespace synthetic {

/// Stripes whose direction, width and colour are the class's, under noise.
inline std::string record(std::uint64_t number) {
  const cairn::CounterRandom random(11, "pictures");
  const auto label = static_cast<int>(number % 10);
  std::string bytes(1, static_cast<char>(label));
  for (int channel = 0; channel < 3; ++channel) {
    for (int row = 0; row < 32; ++row) {
      for (int column = 0; column < 32; ++column) {
        const int across = label % 2 == 0 ? row : column;
        const bool light = across / (2 + label / 2) % 2 == 0;
        const double level = light && channel != label % 3 ? 180 : 60;
        const double noise =
            60 * random.uniform(number * 3072 + bytes.size() - 1);
        bytes += static_cast<char>(
            static_cast<unsigned char>(std::min(level + noise, 255.0)));
      }
    }
  }
  return bytes;
}

/// Makes this number of pictures to train with, and a fifth of it to test.
inline void write_cifar10(
    const std::filesystem::path& folder,
    std::uint64_t pictures) {
  std::filesystem::create_directories(folder);
  const std::uint64_t part = (pictures + 4) / 5;
  for (std::uint64_t file = 0; file < 6; ++file) {
    const std::string name = file == 5
        ? "test_batch.bin"
        : "data_batch_" + std::to_string(file + 1) + ".bin";
    std::ofstream out(folder / name, std::ios::binary);
    for (std::uint64_t i = 0; i < part; ++i) {
      out << record(file * part + i);
    }
  }
}

} // namespace synthetic
