#include "values.h"

#include <cairn/base/error.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

// Kinds of values that Python has and a checkpoint has not (None, tuples,
// bytes, dicts with keys other than texts) are saved as a dict with one of
// these keys. The first character keeps them apart from a program's own keys.
constexpr const char* none_mark = "\x01none";
constexpr const char* tuple_mark = "\x01tuple";
constexpr const char* bytes_mark = "\x01"
                                   "bytes";
constexpr const char* pairs_mark = "\x01pairs";

ClientValue to_value(const py::handle& value, const std::string& path);

std::vector<ClientValue> to_list(
    const py::handle& values,
    const std::string& path) {
  std::vector<ClientValue> result;
  for (const py::handle& each : values) {
    result.push_back(
        to_value(each, path + "[" + std::to_string(result.size()) + "]"));
  }
  return result;
}

ClientState to_state(const py::dict& values, const std::string& path) {
  bool all_texts = true;
  for (const auto& [key, value] : values) {
    all_texts &= py::isinstance<py::str>(key);
  }
  ClientState result;
  if (all_texts) {
    for (const auto& [key, value] : values) {
      const auto name = py::cast<std::string>(key);
      result[name] = to_value(value, path.empty() ? name : path + "." + name);
    }
    return result;
  }
  std::vector<ClientValue> pairs;
  for (const auto& [key, value] : values) {
    const std::string name = path + "[" + std::string(py::repr(key)) + "]";
    pairs.emplace_back(
        std::vector<ClientValue>{to_value(key, name), to_value(value, name)});
  }
  result[pairs_mark] = ClientValue(std::move(pairs));
  return result;
}

ClientValue to_value(const py::handle& value, const std::string& path) {
  PyObject* object = value.ptr();
  if (value.is_none()) {
    return ClientState{{none_mark, true}};
  }
  if (PyBool_Check(object)) {
    return py::cast<bool>(value);
  }
  if (PyLong_Check(object)) {
    int overflow = 0;
    const std::int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) {
      throw UsageError(
          {.what = "an integer of more than 64 bits cannot be saved",
           .where = "client_state, " + path,
           .remedy = "save it as a text"});
    }
    return number;
  }
  if (PyFloat_Check(object)) {
    return py::cast<double>(value);
  }
  if (PyUnicode_Check(object)) {
    return py::cast<std::string>(value);
  }
  if (PyBytes_Check(object)) {
    return ClientState{{bytes_mark, std::string(py::cast<py::bytes>(value))}};
  }
  if (THPVariable_Check(object)) {
    return py::cast<at::Tensor>(value).detach().cpu();
  }
  if (PyDict_Check(object)) {
    return to_state(py::reinterpret_borrow<py::dict>(value), path);
  }
  if (PyTuple_Check(object)) {
    return ClientState{{tuple_mark, ClientValue(to_list(value, path))}};
  }
  if (PyList_Check(object)) {
    return to_list(value, path);
  }
  if (py::hasattr(value, "__array_interface__")) { // NumPy, also its numbers
    const py::object tensor =
        py::module_::import("torch").attr("as_tensor")(value);
    return py::cast<at::Tensor>(tensor).clone();
  }
  throw UsageError(
      {.what = "a value of this type cannot be saved",
       .where = "client_state, " + path,
       .values = std::string(py::str(py::type::handle_of(value))),
       .remedy = "save numbers, texts, bytes, tensors, lists, tuples and "
                 "dicts"});
}

py::object from_value(const ClientValue& value);

py::list from_list(const std::vector<ClientValue>& values) {
  py::list result;
  for (const ClientValue& each : values) {
    result.append(from_value(each));
  }
  return result;
}

py::object from_state(const ClientState& state) {
  if (state.size() == 1) {
    const auto& [mark, value] = *state.begin();
    if (mark == none_mark) {
      return py::none();
    }
    if (mark == bytes_mark) {
      return py::bytes(std::get<std::string>(value));
    }
    if (mark == tuple_mark) {
      return py::tuple(from_list(std::get<std::vector<ClientValue>>(value)));
    }
    if (mark == pairs_mark) {
      py::dict result;
      for (const auto& pair : std::get<std::vector<ClientValue>>(value)) {
        const auto& both = std::get<std::vector<ClientValue>>(pair);
        result[from_value(both.at(0))] = from_value(both.at(1));
      }
      return result;
    }
  }
  py::dict result;
  for (const auto& [name, value] : state) {
    result[py::str(name)] = from_value(value);
  }
  return result;
}

struct FromValue {
  py::object operator()(bool value) const { return py::bool_(value); }
  py::object operator()(std::int64_t value) const { return py::int_(value); }
  py::object operator()(double value) const { return py::float_(value); }
  py::object operator()(const std::string& value) const {
    PyObject* text = PyUnicode_DecodeUTF8(
        value.data(),
        static_cast<Py_ssize_t>(value.size()),
        "strict");
    if (text == nullptr) { // a C++ program's texts may hold any bytes
      PyErr_Clear();
      return py::bytes(value);
    }
    return py::reinterpret_steal<py::object>(text);
  }
  py::object operator()(const at::Tensor& value) const {
    return py::cast(value);
  }
  py::object operator()(const std::vector<ClientValue>& value) const {
    return from_list(value);
  }
  py::object operator()(const ClientState& value) const {
    return from_state(value);
  }
};

py::object from_value(const ClientValue& value) {
  return std::visit(
      FromValue(),
      static_cast<const ClientValue::variant&>(value));
}

} // namespace

ClientState to_client_state(const py::dict& values) {
  return to_state(values, "");
}

py::dict from_client_state(const ClientState& state) {
  const py::object result = from_state(state);
  return py::isinstance<py::dict>(result) ? py::cast<py::dict>(result)
                                          : py::dict();
}

} // namespace cairn::python
