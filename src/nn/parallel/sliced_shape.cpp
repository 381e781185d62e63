#include <cairn/nn/layer.h>

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::nn {

SlicedShape SlicedShape::all_of(std::vector<std::int64_t> whole) {
  SlicedShape shape{.whole = whole, .local = whole};
  shape.offset.resize(whole.size(), 0);
  return shape;
}

SlicedShape SlicedShape::cut(
    std::vector<std::int64_t> whole,
    std::size_t dim,
    const distributed::ProcessGroup& group,
    const std::string& what) {
  SlicedShape shape = all_of(std::move(whole));
  const std::int64_t size = shape.whole.at(dim);
  if (size % group.size() != 0) {
    throw ConfigError(
        {.what = "tensor parallelism does not divide " + what,
         .where = "tensor-model-parallel-size",
         .values = fmt::format("{} over {} ranks", size, group.size()),
         .remedy = "choose a tensor parallel size that divides it"});
  }
  shape.local[dim] = size / group.size();
  shape.offset[dim] = shape.local[dim] * group.rank();
  return shape;
}

SlicedShape SlicedShape::cut_padded(
    std::vector<std::int64_t> whole,
    std::int64_t padded,
    const distributed::ProcessGroup& group) {
  SlicedShape shape = all_of(std::move(whole));
  const std::int64_t rows = std::max(padded, shape.whole.at(0));
  shape.local[0] = (rows + group.size() - 1) / group.size();
  shape.offset[0] = shape.local[0] * group.rank();
  return shape;
}

} // namespace cairn::nn
