// What the drivers of peers have in common: reads n, m and m rows (u, v, weight), all of them
// int64; prints the weight of the matching, the least CPU seconds of the solver alone in the solves
// that begin within 20 ms, and the peer's version.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <vector>

struct Graph {
    std::array<std::int64_t, 2> size{};
    std::vector<std::array<std::int64_t, 3>> rows;
};

inline Graph read_graph() {
    Graph graph;
    if (std::fread(graph.size.data(), sizeof graph.size, 1, stdin) != 1) {
        std::exit(1);
    }
    graph.rows.resize(graph.size[1]);
    if (std::fread(graph.rows.data(), sizeof graph.rows[0], graph.rows.size(), stdin) !=
        graph.rows.size()) {
        std::exit(1);
    }
    return graph;
}

// prepare() makes a solver, solve(solver) is what is timed, weight_of(solver) its answer.
template <class Prepare, class Solve, class WeightOf>
void measure(const char* version, Prepare prepare, Solve solve, WeightOf weight_of) {
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 50;
    std::clock_t least = std::numeric_limits<std::clock_t>::max();
    long long found = 0;
    do {
        auto solver = prepare();
        const std::clock_t begin = std::clock();
        solve(solver);
        least = std::min(least, std::clock() - begin);
        found = weight_of(solver);
    } while (std::clock() < end);
    std::printf("%lld %.6f %s\n", found, static_cast<double>(least) / CLOCKS_PER_SEC, version);
}
