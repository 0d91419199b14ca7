// What bindings of whole-array functions have in common: arrays as spans, vectors as arrays.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace py = pybind11;

template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
std::span<const T> as_span(const Array<T>& array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
}

// The vector becomes the array's memory.
template <class T>
py::array_t<T> as_array(std::vector<T>&& values) {
    auto* moved = new std::vector<T>(std::move(values));
    const py::capsule owner(moved, [](void* p) { delete static_cast<std::vector<T>*>(p); });
    return py::array_t<T>(static_cast<py::ssize_t>(moved->size()), moved->data(), owner);
}

template <class Work>
auto without_gil(Work work) {
    py::gil_scoped_release unlocked;
    return work();
}
