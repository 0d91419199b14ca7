// Sparse graphs: what is to be checked, and how wide the weights are.

#include "matching/sparse/sparse.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "matching/deadline.hpp"
#include "matching/leftover.hpp"
#include "matching/matching.hpp"
#include "matching/numbers/wide.hpp"
#include "matching/parallel.hpp"
#include "matching/sparse/parts.hpp"
#include "matching/warm.hpp"

namespace hivecore::matching {
namespace {

void check(std::int64_t n, std::span<const std::int64_t> offsets,
           std::span<const std::int32_t> neighbours, std::int64_t weights, std::int64_t threads) {
    const auto size = static_cast<std::int64_t>(neighbours.size());
    if (n < 0 || n > std::numeric_limits<Node>::max() ||
        offsets.size() != static_cast<std::size_t>(n) + 1 || offsets.front() != 0 ||
        offsets.back() != size || !std::is_sorted(offsets.begin(), offsets.end()) ||
        weights != size) {
        throw std::invalid_argument("offsets, neighbours and weights do not go together");
    }
    for (const std::int32_t neighbour : neighbours) {
        if (neighbour < 0 || neighbour >= n) {
            throw std::invalid_argument("neighbours holds " + std::to_string(neighbour) +
                                        ", vertices run from 0 to " + std::to_string(n - 1));
        }
    }
    if (threads < 1) {
        throw std::invalid_argument("threads must be 1 or more");
    }
}

template <class Weight>
MatchingOf<ValueOf<Weight>> solve_part(const Adjacency<Weight>& graph, const Start& given,
                                       Deadline deadline) {
    SparseScan<Weight> scan;
    Fractional<SparseScan<Weight>> start(graph.vertices(), scan);
    scan.look_at(graph);
    if constexpr (std::is_integral_v<Weight>) {
        if (!given.duals.empty()) {
            start_from(given, graph, start);
        } else {
            scan.start_greedily(start);
        }
    } else {
        scan.start_greedily(start);
    }
    scan.match_greedily(start);
    start.run(deadline);
    auto matching = finish(graph, start, deadline);
    if (deadline.has_passed()) {
        match_leftover(graph, matching);
    }
    return matching;
}

// What is given for the vertices of a part.
Start part_of(const Start& given, const std::vector<Node>& vertices,
              const std::vector<Node>& number) {
    Start part;
    for (const Node v : vertices) {
        if (!given.duals.empty()) {
            part.duals.push_back(given.duals[v]);
        }
        if (!given.mate.empty()) {
            part.mate.push_back(given.mate[v] < 0 ? -1 : number[given.mate[v]]);
        }
    }
    return part;
}

template <class Weight>
MatchingOf<ValueOf<Weight>> solve(const Adjacency<Weight>& graph, const Start& given,
                                  std::int64_t threads, const Deadline& deadline) {
    const Parts parts = parts_of(graph);
    if (parts.vertices.empty()) {
        return solve_part(graph, given, deadline);
    }
    std::vector<MatchingOf<ValueOf<Weight>>> solved(parts.vertices.size());
    in_parallel(
        solved.size(), threads,
        [&](std::size_t i) {
            const auto& vertices = parts.vertices[i];
            solved[i] = solve_part(graph.part(vertices, parts.number),
                                   part_of(given, vertices, parts.number), deadline);
        },
        [look = deadline]() mutable { look.look(); });
    return joined(parts, solved);
}

// --- weights of several words

// weight / 2^exponent if that is an integer of so many words.
template <int kWords, class T>
Wide<kWords> whole(T weight, int exponent) {
    bool fits = true;
    Wide<kWords> count;
    if constexpr (std::is_floating_point_v<T>) {
        int shift = 0;
        fits = std::isfinite(weight);
        const double fraction = std::frexp(fits ? static_cast<double>(weight) : 0.0, &shift);
        auto mantissa = static_cast<std::int64_t>(std::ldexp(fraction, 53));
        shift -= 53 + exponent;
        if (shift < 0 && mantissa != 0) {
            const int spare = std::countr_zero(static_cast<std::uint64_t>(mantissa));
            fits = fits && -shift <= spare;
            mantissa >>= std::min(-shift, spare);
            shift = 0;
        }
        fits = fits && (mantissa == 0 || shift <= 64 * kWords - 58);
        if (fits && mantissa != 0) {
            count = Wide<kWords>(mantissa);
            count <<= shift;
        }
    } else {
        fits =
            std::cmp_less_equal(weight, kMaxWeight) && std::cmp_greater_equal(weight, -kMaxWeight);
        count = Wide<kWords>(static_cast<std::int64_t>(weight));
    }
    if (!fits) {
        throw std::invalid_argument("a weight is no multiple of 2**exponent, or too large");
    }
    return count;
}

template <int kWords>
MatchingOf<std::uint64_t> in_words(const MatchingOf<Wide<kWords>>& matching) {
    const auto words_of = [](const std::vector<Wide<kWords>>& values) {
        std::vector<std::uint64_t> words;
        words.reserve(values.size() * kWords);
        for (const auto& value : values) {
            words.insert(words.end(), value.words().begin(), value.words().end());
        }
        return words;
    };
    return {matching.mate, words_of(matching.duals), matching.innermost, matching.parents,
            words_of(matching.blossom_duals)};
}

template <int kWords>
MatchingOf<std::uint64_t> solve_in_words(Node n, std::span<const std::int64_t> offsets,
                                         std::span<const std::int32_t> neighbours,
                                         const Numbers& weights, const WideScale& scale,
                                         std::int64_t threads, const Deadline& deadline) {
    using Weight = Wide<kWords>;
    const auto offset = Weight::from_words(scale.offset.data());
    Weight too_heavy(1);
    too_heavy <<= 64 * kWords - 5;
    const bool is_bare = offset == Weight() && scale.sense > 0;
    const auto graph = std::visit(
        [&](const auto& list) {
            return Adjacency<Weight>(n, offsets, neighbours, [&](std::int64_t e) {
                if (is_bare && !(list.at(e) > 0)) {
                    return Weight();  // counts nothing, however many bits it has
                }
                const auto count = whole<kWords>(list.at(e), scale.exponent);
                const auto weight = (scale.sense < 0 ? -count : count) + offset;
                if (weight >= too_heavy) {
                    throw std::invalid_argument("a weight is too large");
                }
                return weight;
            });
        },
        weights);
    return in_words(solve(graph, Start(), threads, deadline));
}

}  // namespace

Matching solve_sparse(std::int64_t n, std::span<const std::int64_t> offsets,
                      std::span<const std::int32_t> neighbours,
                      std::span<const std::int64_t> weights, const Start& start,
                      std::int64_t threads, double seconds, Interrupt* interrupt) {
    const Deadline deadline(seconds, interrupt);
    check(n, offsets, neighbours, static_cast<std::int64_t>(weights.size()), threads);
    check(start, n);
    const auto heaviest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    if (heaviest > kMaxWeight) {
        throw std::invalid_argument("a weight is above 2**59");
    }
    const auto vertices = static_cast<Node>(n);
    const auto weight_at = [&](std::int64_t e) { return weights[e]; };
    return heaviest < std::int64_t{1} << 30
               ? solve(Adjacency<std::int32_t>(vertices, offsets, neighbours, weight_at), start,
                       threads, deadline)
               : solve(Adjacency<std::int64_t>(vertices, offsets, neighbours, weight_at), start,
                       threads, deadline);
}

MatchingOf<std::uint64_t> solve_wide(std::int64_t n, std::span<const std::int64_t> offsets,
                                     std::span<const std::int32_t> neighbours,
                                     const Numbers& weights, const WideScale& scale,
                                     std::int64_t threads, double seconds, Interrupt* interrupt) {
    const Deadline deadline(seconds, interrupt);
    check(n, offsets, neighbours, std::visit([](const auto& list) { return list.rows; }, weights),
          threads);
    if (std::abs(scale.exponent) > 1200 || std::abs(scale.sense) != 1) {
        throw std::invalid_argument("exponent or sense is out of range");
    }
    const auto in_words_of = [&]<int kWords>(std::integral_constant<int, kWords>) {
        return solve_in_words<kWords>(static_cast<Node>(n), offsets, neighbours, weights, scale,
                                      threads, deadline);
    };
    switch (scale.offset.size()) {
        case 2:
            return in_words_of(std::integral_constant<int, 2>());
        case 4:
            return in_words_of(std::integral_constant<int, 4>());
        case kMaxWords:
            return in_words_of(std::integral_constant<int, kMaxWords>());
        default:
            throw std::invalid_argument("offset must have 2, 4 or 34 words");
    }
}

}  // namespace hivecore::matching
