// A graph in parts without an edge between them, each to be solved by itself.
//
// A part is one large component or many small ones, 2^14 directed edges or more together (but for
// what is left over): less is not worth being cut out for a thread. Which components go together
// follows from the graph alone, so that the answer does not depend on how many parts are solved at
// once. Each part is solved as if it were the graph; joined() gives its vertices and blossoms their
// numbers back. Cost: O(n + m).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "matching/matching.hpp"
#include "matching/sparse/adjacency.hpp"
#include "matching/sparse/components.hpp"

namespace hivecore::matching {

struct Parts {
    std::vector<std::vector<Node>> vertices;  // of each part, ascending; the largest part first
    std::vector<Node> number;                 // of each vertex, its place in its part
};

inline constexpr std::int64_t kWorthAPart = 1 << 14;  // directed edges

// No part at all if the graph is not worth being divided.
template <class Weight>
Parts parts_of(const Adjacency<Weight>& graph) {
    if (graph.size() < 2 * kWorthAPart) {
        return {};
    }
    const Components components = components_of(graph);
    const std::int64_t largest = *std::ranges::max_element(components.sizes);
    if (graph.size() - largest < kWorthAPart) {
        return {};
    }
    std::vector<std::int64_t> sizes;  // of parts
    std::vector<Node> part_of;        // of components
    Node filled = -1;                 // the part that small components go to
    for (const std::int64_t size : components.sizes) {
        const bool is_large = size >= kWorthAPart;
        if (is_large || filled < 0 || sizes[filled] >= kWorthAPart) {
            sizes.push_back(0);
            filled = is_large ? filled : static_cast<Node>(sizes.size() - 1);
        }
        const Node part = is_large ? static_cast<Node>(sizes.size() - 1) : filled;
        sizes[part] += size;
        part_of.push_back(part);
    }
    std::vector<std::pair<std::int64_t, Node>> by_size;
    for (std::size_t part = 0; part < sizes.size(); ++part) {
        by_size.emplace_back(-sizes[part], static_cast<Node>(part));
    }
    std::ranges::sort(by_size);
    std::vector<Node> place(sizes.size());
    for (std::size_t i = 0; i < by_size.size(); ++i) {
        place[by_size[i].second] = static_cast<Node>(i);
    }
    Parts parts{std::vector<std::vector<Node>>(sizes.size()), std::vector<Node>(graph.vertices())};
    for (Node v = 0; v < graph.vertices(); ++v) {
        auto& vertices = parts.vertices[place[part_of[components.of[v]]]];
        parts.number[v] = static_cast<Node>(vertices.size());
        vertices.push_back(v);
    }
    return parts;
}

// The answer for the whole graph.
template <class Dual>
MatchingOf<Dual> joined(const Parts& parts, const std::vector<MatchingOf<Dual>>& solved) {
    const std::size_t n = parts.number.size();
    MatchingOf<Dual> out;
    out.mate.resize(n);
    out.duals.resize(n);
    out.innermost.resize(n);
    for (std::size_t i = 0; i < solved.size(); ++i) {
        const auto& vertices = parts.vertices[i];
        const MatchingOf<Dual>& part = solved[i];
        const auto before = static_cast<std::int64_t>(out.parents.size());
        for (std::size_t v = 0; v < vertices.size(); ++v) {
            const std::int64_t around = part.innermost[v];
            out.mate[vertices[v]] = part.mate[v] < 0 ? -1 : vertices[part.mate[v]];
            out.duals[vertices[v]] = part.duals[v];
            out.innermost[vertices[v]] = around < 0 ? -1 : around + before;
        }
        for (const std::int64_t parent : part.parents) {
            out.parents.push_back(parent < 0 ? -1 : parent + before);
        }
        out.blossom_duals.insert(out.blossom_duals.end(), part.blossom_duals.begin(),
                                 part.blossom_duals.end());
    }
    return out;
}

}  // namespace hivecore::matching
