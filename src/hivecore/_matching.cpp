// Binding of the matching kernel: arrays in, arrays out, without the GIL in between.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "adjacency_dicts.hpp"
#include "arrays.hpp"
#include "interruptible.hpp"
#include "locked.hpp"
#include "matching/dense/input.hpp"
#include "matching/matcher.hpp"
#include "matching/matching.hpp"
#include "matching/numbers/extent.hpp"
#include "matching/numbers/numbers.hpp"
#include "matching/numbers/rows.hpp"
#include "matching/numbers/scale.hpp"
#include "matching/small.hpp"

namespace kernel = hivecore::matching;

namespace {

template <class T>
kernel::Strided<T> as_strided(const py::array& array) {
    const auto* first = static_cast<const std::byte*>(array.data());
    return array.ndim() == 1 ? kernel::Strided<T>{first, array.shape(0), 1, array.strides(0), 0}
                             : kernel::Strided<T>{first, array.shape(0), array.shape(1),
                                                  array.strides(0), array.strides(1)};
}

template <class... T>
std::optional<kernel::Numbers> numbers_in(const py::array& array,
                                          std::variant<kernel::Strided<T>...> numbers) {
    const py::dtype dtype = array.dtype();
    const int kind = dtype.normalized_num();
    const bool native = dtype.byteorder() == '=' || dtype.byteorder() == '|';
    const bool aligned = (array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) != 0;
    const bool known =
        ((kind == py::dtype::num_of<T>() && (numbers = as_strided<T>(array), true)) || ...);
    return known && native && aligned ? std::optional{numbers} : std::nullopt;
}

kernel::Numbers as_numbers(const py::array& array, const std::string& name) {
    const auto numbers = numbers_in(array, kernel::Numbers{});
    if (!numbers) {
        throw py::type_error(name + " must hold integers, float32 or float64, native and aligned");
    }
    return *numbers;
}

kernel::Numbers as_list(const py::array& array, const std::string& name) {
    if (array.ndim() != 1) {
        throw py::value_error(name + " must be a list");
    }
    return as_numbers(array, name);
}

kernel::Numbers as_square(const py::array& array, const std::string& name) {
    if (array.ndim() != 2 || array.shape(0) != array.shape(1)) {
        throw py::value_error(name + " must be a square matrix");
    }
    return as_numbers(array, name);
}

template <class Dual>
py::tuple as_tuple(kernel::MatchingOf<Dual>&& matching) {
    return py::make_tuple(as_array(std::move(matching.mate)), as_array(std::move(matching.duals)),
                          as_array(std::move(matching.innermost)),
                          as_array(std::move(matching.parents)),
                          as_array(std::move(matching.blossom_duals)));
}

kernel::Grid grid_of(bool positive) {
    return positive ? kernel::Grid::kOfPositive : kernel::Grid::kOfAll;
}

py::tuple survey_dense(const py::array& weights, bool positive) {
    const auto square = as_square(weights, "weights");
    const auto survey =
        without_gil([&] { return kernel::survey_dense(square, grid_of(positive)); });
    return py::make_tuple(survey.asymmetric, survey.edges, survey.extent.low, survey.extent.high,
                          survey.extent.grid);
}

py::tuple extent_of(const py::array& weights, bool positive) {
    const auto list = as_list(weights, "weights");
    const auto extent = without_gil([&] { return kernel::extent_of(list, grid_of(positive)); });
    return py::make_tuple(extent.low, extent.high, extent.grid);
}

py::tuple rows(std::int64_t n, const py::array& u, const py::array& v,
               const std::optional<py::array>& weights, bool lightest) {
    const auto ends = std::pair{as_list(u, "u"), as_list(v, "v")};
    const auto values =
        weights ? std::optional{as_list(*weights, "weights")} : std::optional<kernel::Numbers>{};
    if (weights && weights->size() != u.size()) {
        throw py::value_error("weights and u are of different lengths");
    }
    auto compressed = without_gil([&] {
        kernel::Rows all = kernel::rows_of(n, ends.first, ends.second);
        if (values && all.repeated >= 0) {
            kernel::combine_parallel(all, *values, lightest);
        }
        return all;
    });
    return py::make_tuple(compressed.outside, compressed.loop, compressed.repeated,
                          as_array(std::move(compressed.offsets)),
                          as_array(std::move(compressed.neighbours)),
                          as_array(std::move(compressed.edges)));
}

py::array_t<std::int64_t> entries_of(const Array<std::int64_t>& offsets,
                                     const Array<std::int32_t>& neighbours,
                                     const Array<std::int64_t>& u, const Array<std::int64_t>& v) {
    if (u.size() != v.size()) {
        throw py::value_error("u and v are of different lengths");
    }
    return as_array(
        kernel::entries_of(as_span(offsets), as_span(neighbours), as_span(u), as_span(v)));
}

py::array_t<std::int64_t> scaled(const py::array& weights, int exponent, std::int64_t sense,
                                 std::int64_t offset, std::int64_t heaviest, std::int64_t floor) {
    const auto list = as_list(weights, "weights");
    const kernel::Scale scale{exponent, sense, offset, heaviest, floor};
    return as_array(without_gil([&] { return kernel::scaled(list, scale); }));
}

std::optional<py::array_t<std::int64_t>> scaled_exactly(const Array<double>& weights, int exponent,
                                                        std::int64_t heaviest) {
    auto counts = kernel::scaled_exactly(as_span(weights), exponent, heaviest);
    return counts ? std::optional{as_array(std::move(*counts))} : std::nullopt;
}

// An int64 array that only this binding writes to, before Python sees it.
py::array_t<std::int64_t> read_only(std::initializer_list<Py_intptr_t> shape) {
    const auto& api = py::detail::npy_api::get();
    auto* dims = const_cast<Py_intptr_t*>(shape.begin());
    auto array = py::reinterpret_steal<py::array_t<std::int64_t>>(api.PyArray_NewFromDescr_(
        api.PyArray_Type_, py::dtype::of<std::int64_t>().release().ptr(),
        static_cast<int>(shape.size()), dims, nullptr, nullptr, 0, nullptr));
    if (!array) {
        throw py::error_already_set();
    }
    py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    return array;
}

std::int64_t* data_of(const py::array_t<std::int64_t>& array) {
    return const_cast<std::int64_t*>(array.data());
}

py::array_t<std::int64_t> mates_of(const kernel::Matching& matching) {
    auto mates = read_only({static_cast<Py_intptr_t>(matching.mate.size())});
    std::ranges::copy(matching.mate, data_of(mates));
    return mates;
}

// The smaller vertex first.
py::array_t<std::int64_t> pairs_of(const kernel::Matching& matching) {
    const auto n = static_cast<std::int64_t>(matching.mate.size());
    const auto pairs = (n - std::ranges::count(matching.mate, -1)) / 2;
    auto array = read_only({pairs, 2});
    std::int64_t* next = data_of(array);
    for (std::int64_t u = 0; u < n; ++u) {
        if (matching.mate[u] > u) {
            *next++ = u;
            *next++ = matching.mate[u];
        }
    }
    return array;
}

// exponent, offset, duals, innermost, parents, blossom_duals as int64: a certificate to be.
py::bytes proof_of(const kernel::SmallMatching& solved) {
    const kernel::Matching& matching = solved.matching;
    const std::array<std::int64_t, 2> scale{solved.exponent, solved.offset};
    const std::span<const std::int64_t> parts[] = {scale, matching.duals, matching.innermost,
                                                   matching.parents, matching.blossom_duals};
    std::size_t size = 0;
    for (const auto& part : parts) {
        size += part.size_bytes();
    }
    auto proof = py::reinterpret_steal<py::bytes>(
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!proof) {
        throw py::error_already_set();
    }
    char* next = PyBytes_AS_STRING(proof.ptr());
    for (const auto& part : parts) {
        if (!part.empty()) {
            std::memcpy(next, part.data(), part.size_bytes());
            next += part.size_bytes();
        }
    }
    return proof;
}

// Exactly an array, of numbers that compiled code reads as they are.
std::optional<kernel::Numbers> numbers_of(py::handle object, py::ssize_t dimensions) {
    const auto& api = py::detail::npy_api::get();
    if (reinterpret_cast<PyTypeObject*>(api.PyArray_Type_) != Py_TYPE(object.ptr())) {
        return std::nullopt;
    }
    const auto array = py::reinterpret_borrow<py::array>(object);
    return array.ndim() == dimensions ? numbers_in(array, kernel::Numbers{}) : std::nullopt;
}

// Without the GIL where it takes longer than to let others have it.
template <class Work>
std::optional<kernel::SmallMatching> solved_by(std::int64_t size, Work work) {
    constexpr std::int64_t kShort = 16;
    return size <= kShort ? work() : without_gil(work);
}

std::optional<kernel::SmallMatching> solve_small_array(py::handle graph,
                                                       const kernel::SmallGoal& goal) {
    const auto weights = numbers_of(graph, 2);
    if (!weights) {
        return std::nullopt;
    }
    const auto [n, columns] = std::visit(
        [](const auto& square) { return std::pair{square.rows, square.columns}; }, *weights);
    if (n != columns || n > kernel::kSmallArray) {
        return std::nullopt;
    }
    return solved_by(n, [&] { return kernel::solve_small(*weights, goal); });
}

template <class T>
kernel::Numbers column_of(const kernel::Strided<T>& ends, std::int64_t column) {
    return kernel::Strided<T>{ends.first + column * ends.across, ends.rows, 1, ends.down, 0};
}

std::optional<kernel::SmallMatching> solve_small_list(py::handle graph,
                                                      const kernel::SmallGoal& goal) {
    if (PyTuple_GET_SIZE(graph.ptr()) != 3 ||
        !PyLong_CheckExact(PyTuple_GET_ITEM(graph.ptr(), 0))) {
        return std::nullopt;
    }
    const auto ends = numbers_of(PyTuple_GET_ITEM(graph.ptr(), 1), 2);
    const auto weights = numbers_of(PyTuple_GET_ITEM(graph.ptr(), 2), 1);
    int overflow = 0;
    const auto n = PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(graph.ptr(), 0), &overflow);
    if (!ends || !weights || overflow != 0 || n < 1 || n > kernel::kSmallGraph) {
        return std::nullopt;
    }
    const auto m = std::visit([](const auto& list) { return list.rows; }, *weights);
    return std::visit(
        [&]<class T>(const kernel::Strided<T>& list) -> std::optional<kernel::SmallMatching> {
            if (std::is_floating_point_v<T> || list.columns != 2 || list.rows != m ||
                m > kernel::kFewEdges) {
                return std::nullopt;
            }
            const auto [u, v] = std::pair{column_of(list, 0), column_of(list, 1)};
            return solved_by(m, [&] { return kernel::solve_small(n, u, v, *weights, goal); });
        },
        *ends);
}

bool is_true(const py::object& object) {
    return static_cast<bool>(py::bool_(object));
}

// What a certificate needs of the graph, which may be written to later: of an array itself, so that
// it then fails.
py::object kept_of(const py::object& graph) {
    if (!PyTuple_Check(graph.ptr())) {
        return graph;
    }
    const auto list = py::reinterpret_borrow<py::tuple>(graph);
    return py::make_tuple(list[0], list[1].attr("copy")(), list[2].attr("copy")());
}

// A new object with these fields, by way of no constructor, which takes longer than to solve a
// small graph, and past the setter of a frozen class.
template <std::size_t N>
py::object object_with(const py::type& cls, PyObject* const (&names)[N],
                       const std::array<py::object, N>& values) {
    auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
    auto object = py::reinterpret_steal<py::object>(type->tp_alloc(type, 0));
    if (!object) {
        throw py::error_already_set();
    }
    for (std::size_t i = 0; i < N; ++i) {
        if (PyObject_GenericSetAttr(object.ptr(), names[i], values[i].ptr()) != 0) {
            throw py::error_already_set();
        }
    }
    return object;
}

py::object solve_small(const py::type& cls, const py::object& graph, std::int64_t sense,
                       const py::object& most_edges, const py::object& perfect,
                       const py::object& certificate) {
    static PyObject* const names[] = {
        PyUnicode_InternFromString("mate"),      PyUnicode_InternFromString("pairs"),
        PyUnicode_InternFromString("weight"),    PyUnicode_InternFromString("exact"),
        PyUnicode_InternFromString("gap_bound"), PyUnicode_InternFromString("_later"),
    };
    static PyObject* const no_gap = PyFloat_FromDouble(0.0);
    const kernel::SmallGoal goal{sense, is_true(most_edges)};
    const auto solved =
        PyTuple_Check(graph.ptr()) ? solve_small_list(graph, goal) : solve_small_array(graph, goal);
    const auto free = solved ? std::ranges::count(solved->matching.mate, -1) : 0;
    if (!solved || (free > 0 && is_true(perfect))) {
        return py::none();
    }
    py::object later = py::none();
    if (is_true(certificate)) {
        later = py::make_tuple(kept_of(graph), proof_of(*solved), sense, most_edges);
    }
    return object_with<std::size(names)>(
        cls, names,
        {mates_of(solved->matching), pairs_of(solved->matching), py::cast(solved->weight),
         py::bool_(true), py::reinterpret_borrow<py::object>(no_gap), std::move(later)});
}

using List = std::optional<Array<std::int64_t>>;

kernel::Start as_start(const List& duals, const List& mate) {
    const auto copied = [](const List& list) {
        return list ? std::vector<std::int64_t>(list->data(), list->data() + list->size())
                    : std::vector<std::int64_t>();
    };
    return {copied(duals), copied(mate)};
}

py::tuple solve_dense(const py::array& weights, int exponent, std::int64_t sense,
                      std::int64_t offset, std::int64_t heaviest, std::int64_t floor,
                      const List& duals, const List& mate, double time_limit) {
    const auto square = as_square(weights, "weights");
    const kernel::Scale scale{exponent, sense, offset, heaviest, floor};
    const kernel::Start start = as_start(duals, mate);
    return as_tuple(hivecore::interruptible([&](kernel::Interrupt* interrupt) {
        return kernel::solve_dense(square, scale, start, time_limit, interrupt);
    }));
}

py::tuple solve_sparse(std::int64_t n, const Array<std::int64_t>& offsets,
                       const Array<std::int32_t>& neighbours, const Array<std::int64_t>& weights,
                       const List& duals, const List& mate, std::int64_t threads,
                       double time_limit) {
    const auto starts = as_span(offsets);
    const auto ends = as_span(neighbours);
    const auto values = as_span(weights);
    const kernel::Start start = as_start(duals, mate);
    return as_tuple(hivecore::interruptible([&](kernel::Interrupt* interrupt) {
        return kernel::solve_sparse(n, starts, ends, values, start, threads, time_limit, interrupt);
    }));
}

py::tuple solve_wide(std::int64_t n, const Array<std::int64_t>& offsets,
                     const Array<std::int32_t>& neighbours, const py::array& weights, int exponent,
                     int sense, const Array<std::uint64_t>& offset, std::int64_t threads,
                     double time_limit) {
    const auto starts = as_span(offsets);
    const auto ends = as_span(neighbours);
    const auto list = as_list(weights, "weights");
    const kernel::WideScale scale{exponent, sense, as_span(offset)};
    return as_tuple(hivecore::interruptible([&](kernel::Interrupt* interrupt) {
        return kernel::solve_wide(n, starts, ends, list, scale, threads, time_limit, interrupt);
    }));
}

struct Matched {
    static constexpr const char* kName = "hivecore.matcher";
    kernel::Node capacity;
    std::unique_ptr<kernel::Matcher> matcher;
};
using LockedMatcher = hivecore::Locked<Matched>;

py::capsule matcher(std::int64_t capacity, const Array<std::int64_t>& weights) {
    constexpr std::int64_t kLargest = 1 << 24;
    if (weights.ndim() != 2 || weights.shape(0) != weights.shape(1)) {
        throw py::value_error("weights must be a square matrix");
    }
    if (capacity < 1 || capacity < weights.shape(0) || capacity > kLargest) {
        throw py::value_error("capacity must be at least 1 and the number of vertices");
    }
    const auto room = static_cast<kernel::Node>(capacity);
    const auto n = static_cast<kernel::Node>(weights.shape(0));
    const auto values = as_span(weights);
    auto kernel_matcher = without_gil([&] { return kernel::make_matcher(room, n, values); });
    return LockedMatcher::make(room, std::move(kernel_matcher));
}

kernel::Node vertex_of(const LockedMatcher& locked, std::int64_t v, const char* name) {
    if (v < 0 || v >= locked.held().capacity) {
        throw py::value_error(std::string(name) + " is not a vertex");
    }
    return static_cast<kernel::Node>(v);
}

void matcher_set_row(const py::capsule& capsule, std::int64_t v,
                     const Array<std::int64_t>& weights) {
    LockedMatcher& locked = LockedMatcher::in(capsule);
    const auto row = as_span(weights);
    const kernel::Node vertex = vertex_of(locked, v, "v");
    if (row.empty() || static_cast<std::int64_t>(row.size()) > locked.held().capacity) {
        throw py::value_error("weights must be of 1 to capacity vertices");
    }
    locked.alone([&](Matched& held) { held.matcher->set_row(vertex, row); });
}

void matcher_set_edge(const py::capsule& capsule, std::int64_t u, std::int64_t v,
                      std::int64_t weight) {
    LockedMatcher& locked = LockedMatcher::in(capsule);
    const kernel::Node from = vertex_of(locked, u, "u");
    const kernel::Node to = vertex_of(locked, v, "v");
    if (from == to) {
        throw py::value_error("u and v must differ");
    }
    locked.alone([&](Matched& held) { held.matcher->set_edge(from, to, weight); });
}

py::tuple matcher_solve(const py::capsule& capsule) {
    return as_tuple(
        LockedMatcher::in(capsule).alone([](Matched& held) { return held.matcher->solve(); }));
}

std::int64_t matcher_passes(const py::capsule& capsule) {
    return LockedMatcher::in(capsule).alone([](Matched& held) { return held.matcher->passes(); });
}

std::int64_t matcher_heaviest(const py::capsule& capsule) {
    return LockedMatcher::in(capsule).held().matcher->heaviest();
}

}  // namespace

PYBIND11_MODULE(_matching, module, py::mod_gil_not_used()) {
    py::register_local_exception_translator([](std::exception_ptr thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const hivecore::PythonError&) {  // it is set
        }
    });
    module.doc() =
        "The kernel behind hivecore.matching, which checks arguments.\n\n"
        "A weight w becomes ``max(sense * round(w / 2**exponent), floor) + offset``; an integer w\n"
        "is neither divided nor compared with the floor. None may exceed ``heaviest``.\n\n"
        "``duals`` and ``mate`` are where a search begins; it ends after ``time_limit`` seconds,\n"
        "with a matching and with duals that bound what any may weigh.\n\n"
        ">>> import numpy as np\n"
        ">>> path = np.array([[0, 5, 0], [5, 0, 4], [0, 4, 0]])\n"
        ">>> mate, duals, *_ = solve_dense(path, heaviest=5)\n"
        ">>> mate.tolist(), int(duals.sum())\n"
        "([1, 0, -1], 10)\n"
        ">>> survey_dense(path / 4)\n"
        "(None, 3, 0.0, 1.25, -2)\n";
    const auto weights = py::arg("weights");
    const auto exponent = py::arg("exponent") = 0;
    const auto sense = py::arg("sense") = 1;
    const auto offset = py::arg("offset") = 0;
    const auto heaviest = py::arg("heaviest") = kernel::kMaxWeight;
    const auto floor = py::arg("floor") = kernel::Scale().floor;
    const auto positive = py::arg("positive") = false;
    const auto duals = py::arg("duals") = py::none();
    const auto mate = py::arg("mate") = py::none();
    const auto time_limit = py::arg("time_limit") = kernel::kNoLimit;
    module.def("survey_dense", &survey_dense, weights, positive,
               "Of a square array: the first asymmetric pair or None, the number of edges, the\n"
               "least and the greatest weight, and for floats the exponent of the coarsest grid,\n"
               "if asked for, of positive weights alone.");
    module.def("extent_of", &extent_of, weights, positive,
               "Of a list: the least and the greatest weight, and the exponent as above.");
    module.def("rows", &rows, py::arg("n"), py::arg("u"), py::arg("v"), weights,
               py::arg("lightest") = false,
               "Compressed rows with both directions of each edge (u[i], v[i]): the first edge\n"
               "with an end out of range, the first loop, the first entry that repeats the one\n"
               "before it (-1: none); offsets, neighbours ascending, and whose edge each entry\n"
               "is. With weights only the best of parallel edges stays.");
    module.def("scaled", &scaled, weights, exponent, sense, offset, heaviest, floor,
               "The weights of a list as integers.");
    module.def("entries_of", &entries_of, py::arg("offsets"), py::arg("neighbours"), py::arg("u"),
               py::arg("v"), "Where in ascending rows of neighbours these edges stand.");
    module.def("scaled_exactly", &scaled_exactly, py::arg("weights"), py::arg("exponent"),
               py::arg("heaviest"),
               "The same for float64 on the grid 2**exponent, negative ones as 0; None if another\n"
               "would be rounded, or one is infinite or too large.");
    module.def("solve_small", &solve_small, py::arg("cls"), py::arg("graph"), py::arg("sense"),
               py::arg("most_edges"), py::arg("perfect"), py::arg("certificate"),
               "Of a square array or an edge list of few vertices and plain weights an object of\n"
               "that class, a `Matching`: its fields but for the certificate and its graph, and\n"
               "what those can be made of, `_later`: the graph; the exponent, the offset, and all\n"
               "else that `solve_dense` gives, as int64 in bytes; the sense, and whether of most\n"
               "edges. `_later` is None if no certificate is asked for. None of any other graph,\n"
               "and of one without a perfect matching where that is asked for.");
    module.def("edges_in", &hivecore::edges_in, py::arg("adjacency"), py::arg("number"),
               py::arg("weight"),
               "Of dicts of dicts as networkx has them, each edge but loops from where it comes\n"
               "first: the numbers of its ends and its weight, 1 by default, in a list. None if\n"
               "any of them is something else than a dict.");
    module.def("plain_numbers", &hivecore::plain_numbers, py::arg("values"),
               "The list as an array, if it holds Python floats alone, or Python integers alone,\n"
               "of at most 2**59 in magnitude; else None.");
    module.def("solve_dense", &solve_dense, weights, exponent, sense, offset, heaviest, floor,
               duals, mate, time_limit,
               "Matching, duals, innermost blossoms, their parents and duals, of a square array.");
    module.def(
        "solve_sparse", &solve_sparse, py::arg("n"), py::arg("offsets"), py::arg("neighbours"),
        weights, duals, mate, py::arg("threads") = 1, time_limit,
        "Matching, duals, innermost blossoms, their parents and duals, of compressed rows with\n"
        "both directions of each edge. The answer does not depend on ``threads``.");
    module.def(
        "solve_wide", &solve_wide, py::arg("n"), py::arg("offsets"), py::arg("neighbours"), weights,
        exponent, sense, py::arg("offset"), py::arg("threads") = 1, time_limit,
        "The same where a weight w becomes ``sense * w / 2**exponent + offset`` without any\n"
        "rounding. The offset and each dual are words of 64 bits, the lowest first; with an\n"
        "offset of 2, 4 or 34 words no weight may reach 2**(64 * words - 5).");
    module.def("matcher", &matcher, py::arg("capacity"), py::arg("weights"),
               "A matcher of a changing graph: int64 weights, -2**63 for no edge.");
    module.def("matcher_set_row", &matcher_set_row, py::arg("matcher"), py::arg("v"),
               py::arg("weights"), "The weights of v and the first vertices.");
    module.def("matcher_set_edge", &matcher_set_edge, py::arg("matcher"), py::arg("u"),
               py::arg("v"), py::arg("weight"), "The weight of one edge.");
    module.def("matcher_solve", &matcher_solve, py::arg("matcher"),
               "Matching, duals and blossoms, of all vertices up to the capacity.");
    module.def("matcher_passes", &matcher_passes, py::arg("matcher"),
               "How often its searches have looked at all vertices.");
    module.def("matcher_heaviest", &matcher_heaviest, py::arg("matcher"),
               "No weight may be above it.");
}
