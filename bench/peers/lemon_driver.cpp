// Times LEMON's maximum-weight matching on one graph, its quickest kind: see driver.hpp.
#include <lemon/config.h>
#include <lemon/matching.h>
#include <lemon/smart_graph.h>

#include <memory>
#include <vector>

#include "driver.hpp"

int main() {
    const Graph given = read_graph();
    lemon::SmartGraph graph;
    graph.reserveNode(static_cast<int>(given.size[0]));
    graph.reserveEdge(static_cast<int>(given.size[1]));
    lemon::SmartGraph::EdgeMap<long long> weight(graph);
    std::vector<lemon::SmartGraph::Node> nodes;
    for (std::int64_t v = 0; v < given.size[0]; ++v) {
        nodes.push_back(graph.addNode());
    }
    for (const auto& [u, v, w] : given.rows) {
        weight[graph.addEdge(nodes[u], nodes[v])] = w;
    }
    using Matching =
        lemon::MaxWeightedMatching<lemon::SmartGraph, lemon::SmartGraph::EdgeMap<long long>>;
    measure(
        LEMON_VERSION, [&] { return std::make_unique<Matching>(graph, weight); },
        [](auto& matching) { matching->run(); },
        [](const auto& matching) { return matching->matchingWeight(); });
}
