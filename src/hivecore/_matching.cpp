// Binding of the matching kernel: arrays in, arrays out, without the GIL in between.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "matching/matching.hpp"

namespace py = pybind11;
namespace kernel = hivecore::matching;

namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
std::span<const T> as_span(const Array<T>& array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
}

py::array_t<std::int64_t> as_array(const std::vector<std::int64_t>& values) {
    return py::array_t<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::tuple as_tuple(const kernel::Matching& found) {
    return py::make_tuple(as_array(found.mate), as_array(found.duals),
                          as_array(found.blossom_offsets), as_array(found.blossom_vertices),
                          as_array(found.blossom_duals));
}

py::tuple solve_dense(const Array<std::int64_t>& weights) {
    if (weights.ndim() != 2 || weights.shape(0) != weights.shape(1)) {
        throw py::value_error("weights must be a square matrix");
    }
    kernel::Matching found;
    {
        const auto n = weights.shape(0);
        const auto values = as_span(weights);
        py::gil_scoped_release unlocked;
        found = kernel::solve_dense(n, values);
    }
    return as_tuple(found);
}

py::tuple solve_sparse(std::int64_t n, const Array<std::int64_t>& offsets,
                       const Array<std::int32_t>& neighbours, const Array<std::int64_t>& weights) {
    kernel::Matching found;
    {
        const auto starts = as_span(offsets);
        const auto ends = as_span(neighbours);
        const auto values = as_span(weights);
        py::gil_scoped_release unlocked;
        found = kernel::solve_sparse(n, starts, ends, values);
    }
    return as_tuple(found);
}

}  // namespace

PYBIND11_MODULE(_matching, module, py::mod_gil_not_used()) {
    module.doc() =
        "The kernel behind hivecore.matching, which checks arguments and scales weights.\n\n"
        ">>> import numpy as np\n"
        ">>> mate, duals, *_ = solve_dense(np.array([[0, 5, 0], [5, 0, 4], [0, 4, 0]]))\n"
        ">>> mate.tolist(), int(duals.sum())\n"
        "([1, 0, -1], 10)\n";
    module.def("solve_dense", &solve_dense, py::arg("weights"),
               "Matching, duals and blossoms of a symmetric int64 matrix; -2**63 is no edge.");
    module.def(
        "solve_sparse", &solve_sparse, py::arg("n"), py::arg("offsets"), py::arg("neighbours"),
        py::arg("weights"),
        "Matching, duals and blossoms of compressed rows with both directions of each edge.");
}
