// Times LEMON's maximum-weight matching on one graph: reads "n m" and m lines "u v weight",
// prints the weight of the matching and the CPU seconds of the solver alone.
#include <lemon/list_graph.h>
#include <lemon/matching.h>

#include <cstdio>
#include <ctime>
#include <vector>

int main() {
    int n = 0;
    int m = 0;
    if (std::scanf("%d %d", &n, &m) != 2) {
        return 1;
    }
    lemon::ListGraph graph;
    lemon::ListGraph::EdgeMap<long long> weight(graph);
    std::vector<lemon::ListGraph::Node> nodes;
    for (int v = 0; v < n; ++v) {
        nodes.push_back(graph.addNode());
    }
    for (int e = 0; e < m; ++e) {
        int u = 0;
        int v = 0;
        long long w = 0;
        if (std::scanf("%d %d %lld", &u, &v, &w) != 3) {
            return 1;
        }
        weight[graph.addEdge(nodes[u], nodes[v])] = w;
    }
    lemon::MaxWeightedMatching<lemon::ListGraph, lemon::ListGraph::EdgeMap<long long>> matching(
        graph, weight);
    const std::clock_t begin = std::clock();
    matching.run();
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("%lld %.9f\n", static_cast<long long>(matching.matchingWeight()), seconds);
}
