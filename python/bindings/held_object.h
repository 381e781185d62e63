#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

namespace cairn::python {

/// A Python object that C++ holds, whichever thread lets go of it last, with or
/// without the interpreter's lock.
class HeldObject {
 public:
  HeldObject() = default;
  explicit HeldObject(pybind11::object object)
      : held_(
            new pybind11::object(std::move(object)),
            [](pybind11::object* last) {
              if (Py_IsInitialized() == 0) {
                return; // the interpreter is gone, and the object with it
              }
              const pybind11::gil_scoped_acquire lock;
              delete last;
            }) {}

  const pybind11::object& operator*() const { return *held_; }
  const pybind11::object* operator->() const { return held_.get(); }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  std::shared_ptr<pybind11::object> held_;
};

} // namespace cairn::python
