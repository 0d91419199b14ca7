// Edges out of dicts of dicts, as networkx keeps them: {node: {neighbour: {attribute: value}}}.
//
// Each edge stands in two rows and is taken from the first. A node is looked up by the address of
// its object first: networkx mostly has the same object wherever the node occurs. Only a look-up by
// value can run Python code, which might change the dicts; so whatever is read is held on to, and
// a dict that has changed its size is an error, as it is in a loop in Python.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace hivecore {

// The numbers of nodes, {node: number}, all of which from 0 to n - 1.
class NodeNumbers {
  public:
    explicit NodeNumbers(py::dict numbers)
        : numbers_(std::move(numbers)),
          shift_(64 - static_cast<int>(std::bit_width(2 * numbers_.size() + 1))),
          slots_(std::size_t{1} << (64 - shift_)) {
        for (const auto& [node, number] : numbers_) {
            Slot* slot = slot_of(node.ptr());
            *slot = {node.ptr(), number.cast<std::int64_t>()};
            if (slot->number < 0 || slot->number >= size()) {
                throw py::value_error("number must be from 0 to the number of nodes");
            }
        }
    }

    std::int64_t size() const { return static_cast<std::int64_t>(numbers_.size()); }

    // -1: no such node.
    std::int64_t of(const py::object& node) {
        const Slot* slot = slot_of(node.ptr());
        return slot->node != nullptr ? slot->number : by_value(node);
    }

  private:
    struct Slot {
        PyObject* node = nullptr;  // which numbers_ holds on to
        std::int64_t number = -1;
    };

    // Where the object is, or would be.
    Slot* slot_of(PyObject* node) {
        const auto hash = reinterpret_cast<std::uintptr_t>(node) * 0x9E3779B97F4A7C15u;
        std::size_t at = hash >> shift_;
        while (slots_[at].node != nullptr && slots_[at].node != node) {
            at = (at + 1) & (slots_.size() - 1);
        }
        return &slots_[at];
    }

    std::int64_t by_value(const py::object& node) const {
        PyObject* number = PyDict_GetItemWithError(numbers_.ptr(), node.ptr());
        if (number == nullptr && PyErr_Occurred() != nullptr) {
            throw py::error_already_set();
        }
        return number == nullptr ? -1 : py::handle(number).cast<std::int64_t>();
    }

    py::dict numbers_;
    int shift_;
    std::vector<Slot> slots_;
};

// Calls visit(key, value) for each entry, which ends the loop by returning false; whether it did
// not. Both are held on to meanwhile, as is the dict.
template <class Visit>
bool each_entry(py::handle dict, Visit visit) {
    const auto held = py::reinterpret_borrow<py::object>(dict);
    const Py_ssize_t size = PyDict_GET_SIZE(dict.ptr());
    Py_ssize_t at = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    while (PyDict_Next(dict.ptr(), &at, &key, &value) != 0) {
        const auto held_key = py::reinterpret_borrow<py::object>(key);
        const auto held_value = py::reinterpret_borrow<py::object>(value);
        if (!visit(held_key, held_value)) {
            return false;
        }
        if (PyDict_GET_SIZE(dict.ptr()) != size) {
            throw std::runtime_error("dictionary changed size during iteration");
        }
    }
    return true;
}

// Each edge once, without loops.
class EdgesInDicts {
  public:
    EdgesInDicts(py::dict numbers, py::object weight)
        : numbers_(std::move(numbers)), weight_(std::move(weight)), seen_(numbers_.size()) {}

    // False if there is something else than a dict, or a node without a number.
    bool read(const py::dict& adjacency) {
        return each_entry(adjacency, [this](const py::object& node, const py::object& row) {
            const std::int64_t from = numbers_.of(node);
            if (from < 0 || !PyDict_CheckExact(row.ptr()) || !read_row(from, row)) {
                return false;
            }
            seen_[from] = 1;
            return true;
        });
    }

    py::tuple as_tuple() && {
        const auto m = static_cast<py::ssize_t>(ends_.size() / 2);
        return py::make_tuple(as_array(std::move(ends_)).reshape({m, py::ssize_t{2}}),
                              std::move(values_));
    }

  private:
    bool read_row(std::int64_t from, const py::object& row) {
        return each_entry(row, [&](const py::object& node, const py::object& attributes) {
            const std::int64_t to = numbers_.of(node);
            if (to < 0 || !PyDict_CheckExact(attributes.ptr())) {
                return false;
            }
            if (to != from && !seen_[to]) {
                ends_.push_back(from);
                ends_.push_back(to);
                values_.append(weight_in(attributes));
            }
            return true;
        });
    }

    py::object weight_in(const py::object& attributes) const {
        if (weight_.is_none()) {
            return default_;
        }
        PyObject* value = PyDict_GetItemWithError(attributes.ptr(), weight_.ptr());
        if (value == nullptr && PyErr_Occurred() != nullptr) {
            throw py::error_already_set();
        }
        return value == nullptr ? default_ : py::reinterpret_borrow<py::object>(value);
    }

    NodeNumbers numbers_;
    py::object weight_;
    py::object default_ = py::int_(1);
    std::vector<char> seen_;
    std::vector<std::int64_t> ends_;
    py::list values_;
};

inline py::object edges_in(const py::dict& adjacency, py::dict number, py::object weight) {
#ifdef Py_GIL_DISABLED
    return py::none();  // another thread could write to the dicts meanwhile
#else
    EdgesInDicts edges(std::move(number), std::move(weight));
    return edges.read(adjacency) ? py::object(std::move(edges).as_tuple()) : py::none();
#endif
}

// The list as an array, if value_of(item) has a value for each item.
template <class T, class ValueOf>
py::object array_of(const py::list& items, ValueOf value_of) {
    std::vector<T> values;
    values.reserve(items.size());
    for (const py::handle item : items) {
        const std::optional<T> value = value_of(item.ptr());
        if (!value) {
            return py::none();
        }
        values.push_back(*value);
    }
    return as_array(std::move(values));
}

inline py::object plain_numbers(const py::list& values) {
    constexpr std::int64_t kLargest = std::int64_t{1} << 59;
    if (!values.empty() && PyFloat_CheckExact(values[0].ptr())) {
        return array_of<double>(values, [](PyObject* item) {
            return PyFloat_CheckExact(item) ? std::optional{PyFloat_AS_DOUBLE(item)} : std::nullopt;
        });
    }
    return array_of<std::int64_t>(values, [](PyObject* item) -> std::optional<std::int64_t> {
        if (!PyLong_CheckExact(item)) {
            return std::nullopt;
        }
        int overflow = 0;
        const std::int64_t value = PyLong_AsLongLongAndOverflow(item, &overflow);
        const bool fits = overflow == 0 && -kLargest <= value && value <= kLargest;
        return fits ? std::optional{value} : std::nullopt;
    });
}

}  // namespace hivecore
