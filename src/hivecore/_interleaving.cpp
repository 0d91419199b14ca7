// Binding of the interleaving kernel: arrays in, arrays out, without the GIL in between.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "interleaving/exact/exact.hpp"
#include "interleaving/grouping/grouping.hpp"
#include "interleaving/rounds/rounds.hpp"
#include "interruptible.hpp"
#include "locked.hpp"

namespace kernel = hivecore::interleaving;

namespace {

kernel::Rule as_rule(const Array<double>& durations, const std::string& model, bool best) {
    constexpr py::ssize_t kMost = 1 << 24;
    if (durations.ndim() != 2 || durations.shape(0) > kMost) {
        throw py::value_error("durations must be an array of two dimensions");
    }
    const auto columns = durations.shape(1);
    const bool barrier = model == "barrier";
    if (!barrier && model != "data2" && model != "artifact") {
        throw py::value_error("model is unknown");
    }
    if (barrier ? columns < 2 || columns > kernel::kMaxSlots : columns != 3) {
        throw py::value_error("durations has a wrong number of columns");
    }
    const auto known = barrier            ? kernel::Model::kBarrier
                       : model == "data2" ? kernel::Model::kData2
                                          : kernel::Model::kArtifact;
    return {known, static_cast<int>(columns), best};
}

kernel::Durations as_durations(const Array<double>& durations) {
    return {as_span(durations), static_cast<int>(durations.shape(1))};
}

kernel::Groups as_groups(const kernel::Rule& rule, const kernel::Durations& durations,
                         const Array<std::int64_t>& starts, const Array<kernel::Job>& members) {
    const auto places = as_span(starts);
    const auto jobs = as_span(members);
    if (places.empty() || places.front() != 0 || places.back() != std::ssize(jobs)) {
        throw py::value_error("starts must lead from 0 to the number of members");
    }
    for (std::size_t g = 1; g < places.size(); ++g) {
        if (places[g] <= places[g - 1] || places[g] - places[g - 1] > rule.slots() ||
            places[g] > std::ssize(jobs)) {
            throw py::value_error("starts must rise by 1 to the number of slots");
        }
    }
    for (const kernel::Job job : jobs) {
        if (job < 0 || job >= durations.jobs()) {
            throw py::value_error("members must be jobs");
        }
    }
    return {places, jobs};
}

py::tuple rounds(const Array<double>& durations, const Array<std::int64_t>& starts,
                 const Array<kernel::Job>& members, const std::string& model, bool best) {
    const auto rule = as_rule(durations, model, best);
    const auto rows = as_durations(durations);
    const auto groups = as_groups(rule, rows, starts, members);
    auto found = without_gil([&] { return kernel::rounds_of(rule, rows, groups); });
    return py::make_tuple(as_array(std::move(found.time)), as_array(std::move(found.efficiency)),
                          as_array(std::move(found.offsets)));
}

py::array_t<double> pairs(const Array<double>& durations, const std::string& model, bool best) {
    const auto rule = as_rule(durations, model, best);
    const auto rows = as_durations(durations);
    py::array_t<double> efficiencies({durations.shape(0), durations.shape(0)});
    double* entries = efficiencies.mutable_data();
    without_gil([&] { kernel::efficiencies_of_pairs(rule, rows, entries); });
    return efficiencies;
}

template <class T>
std::span<const T> one_per_job(const Array<T>& values, const kernel::Durations& durations,
                               const std::string& name) {
    if (values.ndim() != 1 || values.size() != durations.jobs()) {
        throw py::value_error(name + " must have an entry per job");
    }
    return as_span(values);
}

kernel::Jobs as_jobs(const Array<double>& durations, const Array<std::int64_t>& gpus,
                     const Array<double>& solo, const Array<std::int64_t>& rank,
                     const Array<std::int64_t>& memory) {
    const auto rows = as_durations(durations);
    return {rows, one_per_job(gpus, rows, "gpus"), one_per_job(solo, rows, "solo"),
            one_per_job(rank, rows, "rank"), one_per_job(memory, rows, "memory")};
}

kernel::Terms as_terms(const kernel::Rule& rule, const Array<double>& factors,
                       std::int64_t gpu_memory, double max_slowdown, bool gain) {
    if (factors.size() < 1 || factors.size() > rule.slots()) {
        throw py::value_error("factors must be of 1 to the number of slots");
    }
    return {rule, static_cast<int>(factors.size()), as_span(factors), gpu_memory, max_slowdown,
            gain};
}

py::tuple group(const Array<double>& durations, const Array<std::int64_t>& gpus,
                const Array<double>& solo, const Array<std::int64_t>& rank,
                const Array<std::int64_t>& memory, const std::string& model, bool best,
                const Array<double>& factors, std::int64_t gpu_memory, double max_slowdown,
                bool gain, std::int64_t capacity, bool least_waste_first, std::int64_t effort,
                const Array<std::int64_t>& starts, const Array<kernel::Job>& members,
                std::int64_t most_in_matrix) {
    const auto rule = as_rule(durations, model, best);
    const auto jobs = as_jobs(durations, gpus, solo, rank, memory);
    const auto terms = as_terms(rule, factors, gpu_memory, max_slowdown, gain);
    const auto start = as_groups(rule, jobs.durations, starts, members);
    for (std::int64_t g = 0; g < start.count(); ++g) {
        if (std::ssize(start.group(g)) > terms.max_group) {
            throw py::value_error("starts has a group of more jobs than there are factors");
        }
    }
    auto found = hivecore::interruptible([&](hivecore::matching::Interrupt* interrupt) {
        return kernel::group_jobs(jobs, terms, {capacity, least_waste_first}, start, effort,
                                  {most_in_matrix, interrupt});
    });
    return py::make_tuple(as_array(std::move(found.starts)), as_array(std::move(found.members)));
}

struct Grouping {
    static constexpr const char* kName = "hivecore.exact_grouper";
    kernel::Rule rule;
    kernel::ExactGrouper grouper;
};
using LockedGrouper = hivecore::Locked<Grouping>;

py::capsule exact_grouper(const Array<double>& durations, const std::string& model, bool best,
                          const Array<double>& factors, std::int64_t gpu_memory,
                          double max_slowdown, bool gain) {
    const auto rule = as_rule(durations, model, best);
    const auto terms = as_terms(rule, factors, gpu_memory, max_slowdown, gain);
    return LockedGrouper::make(rule, kernel::ExactGrouper(terms));
}

py::tuple group_exactly(const py::capsule& capsule, const Array<double>& durations,
                        const Array<std::int64_t>& gpus, const Array<double>& solo,
                        const Array<std::int64_t>& rank, const Array<std::int64_t>& memory,
                        const Array<std::uint8_t>& optional, std::int64_t capacity, int nodes) {
    auto& locked = LockedGrouper::in(capsule);
    if (durations.ndim() != 2 || durations.shape(1) != locked.held().rule.columns) {
        throw py::value_error("durations has another number of columns than the grouper");
    }
    const auto jobs = as_jobs(durations, gpus, solo, rank, memory);
    const auto may_wait = one_per_job(optional, jobs.durations, "optional");
    if (std::any_of(jobs.gpus.begin(), jobs.gpus.end(), [](std::int64_t n) { return n < 1; })) {
        throw py::value_error("gpus must be positive");
    }
    auto found = locked.alone(
        [&](Grouping& held) { return held.grouper.group(jobs, may_wait, capacity, nodes); });
    return py::make_tuple(as_array(std::move(found.groups.starts)),
                          as_array(std::move(found.groups.members)), found.value, found.bound);
}

}  // namespace

PYBIND11_MODULE(_interleaving, module, py::mod_gil_not_used()) {
    module.doc() =
        "The kernel behind hivecore.interleaving, which checks arguments.\n\n"
        "Durations are finite, not negative, and not all zero in any row.\n\n"
        ">>> import numpy as np\n"
        ">>> jobs = np.array([[2.0, 1.0], [1.0, 2.0]])\n"
        ">>> time, efficiency, offsets = rounds(jobs, np.array([0, 2]), np.array([0, 1], 'i4'))\n"
        ">>> float(time[0]), float(efficiency[0]), offsets.tolist()\n"
        "(3.0, 1.0, [0, 1])\n";
    const auto durations = py::arg("durations");
    const auto model = py::arg("model") = "barrier";
    const auto best = py::arg("best") = true;
    module.def("rounds", &rounds, durations, py::arg("starts"), py::arg("members"), model, best,
               "Times and efficiencies of groups, and the offset of every member: group g is\n"
               "members[starts[g]:starts[g + 1]].");
    module.def("pairs", &pairs, durations, model, best,
               "Efficiencies of all pairs, on the diagonal of the jobs alone.");
    module.def(
        "group", &group, durations, py::arg("gpus"), py::arg("solo"), py::arg("rank"),
        py::arg("memory"), py::arg("model"), py::arg("best"), py::arg("factors"),
        py::arg("gpu_memory"), py::arg("max_slowdown"), py::arg("gain"), py::arg("capacity"),
        py::arg("least_waste_first"), py::arg("effort"), py::arg("starts"), py::arg("members"),
        py::arg("most_in_matrix"),
        "Muri's rounds of matchings, and with some effort a local search: starts and members "
        "of groups, grown from those given.\n"
        "Groups have at most as many jobs as there are factors. Of more nodes of a bucket than\n"
        "most_in_matrix no weights are stored.");
    module.def("exact_grouper", &exact_grouper, durations, py::arg("model"), py::arg("best"),
               py::arg("factors"), py::arg("gpu_memory"), py::arg("max_slowdown"), py::arg("gain"),
               "What group_exactly() keeps between calls on the same terms; of the durations only\n"
               "the number of columns matters.");
    module.def("group_exactly", &group_exactly, py::arg("grouper"), durations, py::arg("gpus"),
               py::arg("solo"), py::arg("rank"), py::arg("memory"), py::arg("optional"),
               py::arg("capacity"), py::arg("nodes"),
               "The best groups: starts and members, their value, and what none exceeds.");
}
