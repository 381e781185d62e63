#include <cairn/config/model_kind.h>

#include <cairn/base/error.h>

namespace cairn::config {

std::string_view name_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::gpt:
      return "gpt";
    case ModelKind::bert:
      return "bert";
    case ModelKind::t5:
      return "t5";
  }
  throw InternalError({.what = "no such model"});
}

std::optional<ModelKind> model_kind_named(std::string_view name) {
  for (const ModelKind kind :
       {ModelKind::gpt, ModelKind::bert, ModelKind::t5}) {
    if (name_of(kind) == name) {
      return kind;
    }
  }
  return std::nullopt;
}

} // namespace cairn::config
