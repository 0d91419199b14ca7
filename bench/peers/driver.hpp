// What the drivers of peers have in common: reads n, m and m rows (u, v, weight), all of them
// int64; prints the weight of the matching, the least CPU seconds of the solver alone in the solves
// that begin within 20 ms, and the peer's version. Solves of less than 0.1 ms are timed some at a
// time, each of a solver of its own, for a clock that counts microseconds.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
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
    constexpr std::clock_t kEnough = CLOCKS_PER_SEC / 10'000;
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 50;
    double least = std::numeric_limits<double>::infinity();
    long long heaviest = 0;
    std::size_t together = 1;
    do {
        std::vector<decltype(prepare())> solvers;
        for (std::size_t i = 0; i < together; ++i) {
            solvers.push_back(prepare());
        }
        const std::clock_t begin = std::clock();
        for (auto& solver : solvers) {
            solve(solver);
        }
        const std::clock_t taken = std::clock() - begin;
        if (taken < kEnough) {
            together *= 2;
        } else {
            least = std::min(least, static_cast<double>(taken) / together);
        }
        heaviest = weight_of(solvers.front());
    } while (std::clock() < end || std::isinf(least));
    std::printf("%lld %.9f %s\n", heaviest, least / CLOCKS_PER_SEC, version);
}
