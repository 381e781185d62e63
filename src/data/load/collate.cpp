#include <cairn/data/collate.h>

namespace cairn::data {

void collate(
    const BlendedDataset<GptDataset>& dataset,
    std::span<const std::int64_t> indices,
    const HostAllocator& allocate,
    Batch& batch) {
  const std::size_t rows = indices.size();
  const std::size_t length = dataset.datasets().front().sequence_length();
  batch.add("tokens", ElementType::int64, rows, length, allocate);
  batch.add("labels", ElementType::int64, rows, length, allocate);
  batch.add("loss_mask", ElementType::float32, rows, length, allocate);
  batch.add("position_ids", ElementType::int64, rows, length, allocate);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t begin = row * length;
    dataset.read(
        static_cast<std::size_t>(indices[row]),
        GptRow{
            batch.fields[0].int64s().subspan(begin, length),
            batch.fields[1].int64s().subspan(begin, length),
            batch.fields[2].floats().subspan(begin, length),
            batch.fields[3].int64s().subspan(begin, length)});
  }
}

} // namespace cairn::data
