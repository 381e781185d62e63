#include "errors.h"

#include <cairn/base/error.h>

#include <exception>

namespace cairn::python {

namespace py = pybind11;

namespace {

/// The classes, kept alive by the interpreter's module for as long as Python
/// runs. pybind11's translators are plain functions, so they need one place to
/// look.
struct Classes {
  PyObject* error = nullptr;
  PyObject* config = nullptr;
  PyObject* usage = nullptr;
  PyObject* data = nullptr;
  PyObject* checkpoint = nullptr;
  PyObject* comm = nullptr;
  PyObject* internal = nullptr;
};

Classes& classes() {
  static Classes all;
  return all;
}

PyObject* add_class(
    py::module_& module,
    const char* name,
    const py::tuple& bases,
    const char* documentation) {
  const std::string full = std::string("cairn.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(
      full.c_str(),
      documentation,
      bases.ptr(),
      nullptr);
  if (made == nullptr) {
    throw py::error_already_set();
  }
  module.attr(name) = py::handle(made);
  return made;
}

void raise(PyObject* type, const Error& error) {
  py::object made = py::reinterpret_borrow<py::object>(type)(error.what());
  const Problem& problem = error.problem();
  made.attr("what") = problem.what;
  made.attr("where") = problem.where;
  made.attr("values") = problem.values;
  made.attr("remedy") = problem.remedy;
  PyErr_SetObject(type, made.ptr());
}

} // namespace

void add_errors(py::module_& module) {
  Classes& all = classes();
  const auto base = [](PyObject* type) {
    return py::reinterpret_borrow<py::object>(type);
  };
  all.error = add_class(
      module,
      "Error",
      py::make_tuple(base(PyExc_RuntimeError)),
      "Base of all errors that Cairn raises. `what`, `where`, `values` and "
      "`remedy` are the parts of the message.");
  const py::object error = base(all.error);
  for (const char* part : {"what", "where", "values", "remedy"}) {
    error.attr(part) = ""; // of errors that are raised in Python
  }
  all.config = add_class(
      module,
      "ConfigError",
      py::make_tuple(error, base(PyExc_ValueError)),
      "The configuration asks for something impossible.");
  all.usage = add_class(
      module,
      "UsageError",
      py::make_tuple(error),
      "A call in the wrong order, or with arguments that cannot be.");
  all.data = add_class(
      module,
      "DataError",
      py::make_tuple(error, base(PyExc_OSError)),
      "An input file is missing, broken or unsuitable.");
  all.checkpoint = add_class(
      module,
      "CheckpointError",
      py::make_tuple(error, base(PyExc_OSError)),
      "A checkpoint is missing, torn, or does not fit the model.");
  all.comm = add_class(
      module,
      "CommError",
      py::make_tuple(error, base(PyExc_ConnectionError)),
      "Ranks could not reach each other, or made calls that do not match.");
  all.internal = add_class(
      module,
      "InternalError",
      py::make_tuple(error),
      "A bug in Cairn itself.");
  py::register_exception_translator([](std::exception_ptr thrown) {
    const Classes& known = classes();
    try {
      std::rethrow_exception(thrown);
    } catch (const ConfigError& error) {
      raise(known.config, error);
    } catch (const UsageError& error) {
      raise(known.usage, error);
    } catch (const DataError& error) {
      raise(known.data, error);
    } catch (const CheckpointError& error) {
      raise(known.checkpoint, error);
    } catch (const CommError& error) {
      raise(known.comm, error);
    } catch (const InternalError& error) {
      raise(known.internal, error);
    } catch (const Error& error) {
      raise(known.error, error);
    }
  });
}

} // namespace cairn::python
