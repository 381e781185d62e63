#include <cairn/model/description.h>

#include "model/choice_names.h"

#include <cairn/base/error.h>

namespace cairn::model {

ModelKind kind_of(ModelFamily family) {
  switch (family) {
    case ModelFamily::gpt2:
    case ModelFamily::llama:
      return ModelKind::gpt;
    case ModelFamily::bert:
    case ModelFamily::roberta:
      return ModelKind::bert;
    case ModelFamily::t5:
      return ModelKind::t5;
  }
  throw InternalError({.what = "a model family without a kind"});
}

std::string_view name_of(ModelFamily family) {
  return choice_name(family);
}

std::string_view name_of(ModelKind kind) {
  return choice_name(kind);
}

std::optional<ModelKind> model_kind_named(std::string_view name) {
  return choice_of<ModelKind>(name);
}

} // namespace cairn::model
