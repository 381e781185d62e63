#include "checkpoints/deepspeed/frozen_parameters.h"

#include "checkpoints/tensors/in_file.h"

#include <memory>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

LazyTensor joined_fragments(
    const RankFiles& files,
    const std::string& name,
    const Shape& shape) {
  auto fragments = std::make_shared<FlatTensors>();
  FlatSizes sizes;
  for (std::size_t rank = 0; rank < files.models.size(); ++rank) {
    in_file(files.model_files[rank], [&] {
      const PythonValue fragment =
          files.models[rank].at("frozen_param_fragments").at(name);
      sizes.push_back({elements_of(fragment.stored().sizes)});
      fragments->push_back({fragment});
    });
  }
  const auto plan =
      cut_by_parameter({{{name, shape}}}, sizes, files.model_files);
  return joined(plan[0], fragments, files.model_files);
}

} // namespace

NamedTensors frozen_parameters(const RankFiles& files) {
  const ShapeGroups groups = in_file(files.model_files[0], [&] {
    const auto shapes = member(files.models[0], "frozen_param_shapes");
    return shapes ? shape_groups(*shapes) : ShapeGroups();
  });
  NamedTensors result;
  for (const auto& group : groups) {
    for (const auto& [name, shape] : group) {
      result.emplace_back(name, joined_fragments(files, name, shape));
    }
  }
  return result;
}

} // namespace cairn::checkpoints::deepspeed
