#pragma once

#include "checkpoints/pickle/python_node.h"

namespace cairn::checkpoints {

/// The value of `callable(*arguments)`, where the callable only builds data
/// (collections.OrderedDict, torch._utils._rebuild_tensor_v2, numpy's arrays,
/// …). For any other callable, an object that records both.
PythonValue::Node* call(
    PythonNodes& nodes,
    const PythonValue::Node& callable,
    const PythonValue::Node& arguments);

/// `object.__setstate__(state)`, under the same rule.
void set_state(PythonValue::Node& object, const PythonValue::Node& state);

} // namespace cairn::checkpoints
