// Binding of the kernel of device claims: tuples of numbers in, an answer out, without the GIL in
// between. A node and claims never change once they are made, so no call waits for another.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dra/search.hpp"

namespace py = pybind11;
namespace kernel = hivecore::dra;

namespace {

// What never changes, as a capsule.
template <class T>
py::capsule as_capsule(T&& made, const char* name) {
    auto* moved = new T(std::move(made));
    return py::capsule(moved, name, [](void* p) { delete static_cast<T*>(p); });
}

template <class T>
const T& in(const py::capsule& capsule, const char* name) {
    if (capsule.name() == nullptr || std::strcmp(capsule.name(), name) != 0) {
        throw py::type_error(std::string("it must be a capsule called ") + name);
    }
    return *capsule.get_pointer<T>();
}

constexpr const char* kNode = "hivecore._dra.node";
constexpr const char* kClaims = "hivecore._dra.claims";

using Uses = std::vector<std::pair<std::int32_t, kernel::Amount>>;
using Charges = std::vector<std::tuple<std::int32_t, std::uint64_t, Uses>>;
using Devices =
    std::vector<std::tuple<std::int32_t, std::uint8_t, Charges, std::vector<kernel::Amount>>>;
using Alternatives = std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>>;
using Constraints = std::vector<std::pair<bool, std::vector<std::int32_t>>>;
using Profiles =
    std::vector<std::tuple<std::vector<std::int32_t>, std::vector<bool>,
                           std::vector<kernel::Amount>, std::vector<std::vector<std::int32_t>>>>;

py::capsule make_node(const Devices& devices, std::vector<kernel::Amount> left,
                      std::vector<std::uint64_t> common) {
    kernel::Node node{{}, std::move(left), std::move(common)};
    for (const auto& [profile, held, charges, room] : devices) {
        if (held > static_cast<std::uint8_t>(kernel::Held::kWhole)) {
            throw py::value_error("held: 0, 1 or 2");
        }
        kernel::Device device{profile, static_cast<kernel::Held>(held), {}, room};
        for (const auto& [set, groups, uses] : charges) {
            kernel::Charge charge{set, groups, {}};
            for (const auto& [counter, amount] : uses) {
                charge.uses.push_back({counter, amount});
            }
            device.charges.push_back(std::move(charge));
        }
        node.devices.push_back(std::move(device));
    }
    kernel::check(node);
    return as_capsule(std::move(node), kNode);
}

py::capsule make_claims(const Alternatives& alternatives, const Constraints& constraints,
                        const Profiles& profiles) {
    kernel::Claims claims;
    for (const auto& [request, claim, wanted, is_admin] : alternatives) {
        claims.alternatives.push_back({request, claim, wanted, is_admin});
    }
    for (const auto& [is_match, of] : constraints) {
        claims.constraints.push_back({is_match, of});
    }
    for (const auto& [offers, barred, amounts, values] : profiles) {
        claims.profiles.push_back({offers, barred, amounts, values});
    }
    return as_capsule(std::move(claims), kClaims);
}

py::tuple search(const py::capsule& of_node, const py::capsule& of_claims, int mode,
                 std::uint64_t limit, std::uint64_t few, std::vector<kernel::Amount> limits,
                 std::vector<kernel::Amount> costs) {
    const auto& node = in<kernel::Node>(of_node, kNode);
    const auto& claims = in<kernel::Claims>(of_claims, kClaims);
    if (mode < 0 || mode > static_cast<int>(kernel::Mode::kAny)) {
        throw py::value_error("mode: 0, 1 or 2");
    }
    const kernel::Budgets budgets{std::move(limits), std::move(costs)};
    const auto answer = [&] {
        const py::gil_scoped_release released;
        return kernel::search(node, claims, budgets, static_cast<kernel::Mode>(mode), limit, few);
    }();
    py::list grants;
    for (const auto& [alternative, device] : answer.grants) {
        grants.append(py::make_tuple(alternative, device));
    }
    return py::make_tuple(static_cast<int>(answer.outcome), grants, answer.is_first, answer.work,
                          static_cast<int>(answer.reason), answer.requests, answer.wanted,
                          answer.present);
}

}  // namespace

PYBIND11_MODULE(_dra, module, py::mod_gil_not_used()) {
    module.doc() =
        "Kernel of device claims: `hivecore.dra` turns names and amounts into numbers.\n\n"
        ">>> from hivecore import _dra\n"
        ">>> node = _dra.node([(0, 0, [], [])] * 3, [], [])  # three free devices of profile 0\n"
        ">>> two = _dra.claims([(0, 0, 2, False)], [], [([-1], [False], [], [])])\n"
        ">>> _dra.search(node, two, mode=0, limit=1000, few=512)[:2]\n"
        "(0, [(0, 0), (0, 1)])\n";
    module.def(
        "node", &make_node, py::arg("devices"), py::arg("left"), py::arg("common"),
        "A node: devices as (profile, held, charges, room), charges as (set, groups,\n"
        "[(counter, amount), ...]); what is left of each counter; the groups of each set in\n"
        "use.");
    module.def("claims", &make_claims, py::arg("alternatives"), py::arg("constraints"),
               py::arg("profiles"),
               "Claims: alternatives as (request, claim, wanted or -1, admin access); constraints\n"
               "as (match, alternatives); profiles as (offers, barred, amounts, values of each\n"
               "constraint).");
    module.def(
        "search", &search, py::arg("node"), py::arg("claims"), py::arg("mode"), py::arg("limit"),
        py::arg("few"), py::arg("limits") = py::tuple(), py::arg("costs") = py::tuple(),
        "`limits`: the most that grants may cost together, in each of several currencies;\n"
        "`costs`: of each limit, alternative and device, in this order.\n"
        "Outcome, grants as (alternative, device), whether they are the first, work, and of\n"
        "a failure the reason: its kind, requests, devices wanted and present.");
}
