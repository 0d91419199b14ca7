// Duals of another solution made to fit: feasible again, as many of them as possible untouched.
//
// Any numbers are accepted: they are clamped to what a dual can be, raised where an edge is
// not covered, and pairs are kept only where their edge is then tight. So the search begins with
// the invariants that it needs, whatever was given; how good it was shows in the time alone.
// Cost: O(n^2) for dense graphs, O(n + m) for sparse ones, and O(k log k) for k raised vertices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/sparse/adjacency.hpp"
#include "matching/sparse/scan.hpp"

namespace hivecore::matching {

inline void check(const Start& start, std::int64_t n) {
    const auto fits = [n](const std::vector<std::int64_t>& values) {
        return values.empty() || static_cast<std::int64_t>(values.size()) == n;
    };
    if (!fits(start.duals) || !fits(start.mate)) {
        throw std::invalid_argument("duals and mate must have one entry per vertex");
    }
    for (const std::int64_t mate : start.mate) {
        if (mate < -1 || mate >= n) {
            throw std::invalid_argument("mate holds an invalid vertex");
        }
    }
}

// needed(v) is the dual that v must have beside those of the others, violated(v) the number of its
// edges that are not covered. The vertex with the most is raised first: where a few vertices have
// new weights, hardly any other is touched.
template <class Value, class Needed, class Violated>
void raise_where_infeasible(std::vector<Value>& duals, Needed needed, Violated violated) {
    std::vector<std::pair<Node, Node>> lacking;
    for (std::size_t i = 0; i < duals.size(); ++i) {
        const auto v = static_cast<Node>(i);
        if (needed(v) > duals[v]) {
            lacking.emplace_back(-violated(v), v);
        }
    }
    std::ranges::sort(lacking);
    for (const auto& [violations, v] : lacking) {
        duals[v] = std::max(duals[v], needed(v));
    }
}

// No feasible dual needs to be larger than the greatest weight, doubled as duals are.
template <class Value>
std::vector<Value> within(const std::vector<std::int64_t>& duals, std::int64_t greatest) {
    std::vector<Value> clamped;
    clamped.reserve(duals.size());
    for (const std::int64_t dual : duals) {
        clamped.push_back(static_cast<Value>(
            std::clamp<std::int64_t>(dual, 0, std::max<std::int64_t>(0, greatest))));
    }
    return clamped;
}

// Feasible duals, and the pairs that are tight with them.
template <class Weight>
void start_from(const Start& given, const Adjacency<Weight>& graph,
                Fractional<SparseScan<Weight>>& start) {
    std::int64_t greatest = 0;
    for (Node v = 0; v < graph.vertices(); ++v) {
        for (const auto& edge : graph.edges(v)) {
            greatest = std::max<std::int64_t>(greatest, edge.weight);
        }
    }
    std::vector<std::int64_t> duals = within<std::int64_t>(given.duals, greatest);
    const auto needed = [&](Node v) {
        std::int64_t least = 0;
        for (const auto& edge : graph.edges(v)) {
            least = std::max(least, edge.weight - duals[edge.to]);
        }
        return least;
    };
    const auto violated = [&](Node v) {
        return static_cast<Node>(std::ranges::count_if(graph.edges(v), [&](const auto& edge) {
            return edge.weight - duals[edge.to] > duals[v];
        }));
    };
    raise_where_infeasible(duals, needed, violated);
    for (Node v = 0; v < graph.vertices(); ++v) {
        start.set_dual(v, duals[v]);
    }
    for (std::size_t v = 0; v < given.mate.size(); ++v) {
        for (const auto& edge : graph.edges(static_cast<Node>(v))) {
            if (edge.to == given.mate[v] && edge.weight == duals[v] + duals[edge.to] &&
                start.mate(static_cast<Node>(v)) < 0 && start.mate(edge.to) < 0) {
                start.match(static_cast<Node>(v), edge.to);
            }
        }
    }
}

}  // namespace hivecore::matching
