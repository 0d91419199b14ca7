// Times LEMON's maximum-weight matching on one graph: reads n, m and m rows (u, v, weight), all of
// them int64; prints the weight of the matching, the least CPU seconds of the solver alone in the
// solves that begin within 20 ms, and LEMON's version.
#include <lemon/config.h>
#include <lemon/list_graph.h>
#include <lemon/matching.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <vector>

int main() {
    std::array<std::int64_t, 2> size{};
    if (std::fread(size.data(), sizeof size, 1, stdin) != 1) {
        return 1;
    }
    std::vector<std::array<std::int64_t, 3>> rows(size[1]);
    if (std::fread(rows.data(), sizeof rows[0], rows.size(), stdin) != rows.size()) {
        return 1;
    }
    lemon::ListGraph graph;
    lemon::ListGraph::EdgeMap<long long> weight(graph);
    std::vector<lemon::ListGraph::Node> nodes;
    for (std::int64_t v = 0; v < size[0]; ++v) {
        nodes.push_back(graph.addNode());
    }
    for (const auto& [u, v, w] : rows) {
        weight[graph.addEdge(nodes[u], nodes[v])] = w;
    }
    using Matching =
        lemon::MaxWeightedMatching<lemon::ListGraph, lemon::ListGraph::EdgeMap<long long>>;
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 50;
    std::clock_t least = std::numeric_limits<std::clock_t>::max();
    long long found = 0;
    do {
        Matching matching(graph, weight);
        const std::clock_t begin = std::clock();
        matching.run();
        least = std::min(least, std::clock() - begin);
        found = matching.matchingWeight();
    } while (std::clock() < end);
    std::printf("%lld %.6f %s\n", found, static_cast<double>(least) / CLOCKS_PER_SEC,
                LEMON_VERSION);
}
