// Complete graphs whose weights are computed when they are asked for: no matrix is stored.
//
// Few of the pairs can matter. Those of little slack at known duals, the *core*, are solved as a
// sparse graph. There no dual may sink further below the known one than its *reach*, and every pair
// whose slack is less than the reaches of both ends is in the core; so what is not in it stays
// covered. Vertices that would have to sink further are left over; then the same begins again at
// the new duals, with more reach for these. When hardly any are left over the core is solved
// without that limit, and its duals are *priced*: one pass over all pairs finds those that duals
// and blossoms do not cover, which enter the core. When there is none, the duals prove the matching
// the heaviest of the complete graph.
//
// Where to begin is told by a fourth of the vertices, solved first in the same way: the duals of
// the others follow as the lowest that cover their pairs with these.
// Where an odd number of vertices has to leave one over, a guest joins whom all like equally and
// more than each other: otherwise a blossom would hold all of them and cover all pairs.
//
// Cost: O(n^2) weights computed per pass, by two threads; some ten passes where weights are spread.
// Where very many are nearly tied, duals hardly come to rest; that is noticed at a sample, and
// given up. Memory O(n) beside that of the weights. Deterministic. Sources: Applegate and Cook
// (1993) for pricing; Marsten, Hogan and Blankenship (1975) for limits on the steps of duals.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "matching/matching.hpp"
#include "matching/parallel.hpp"

namespace hivecore::matching {
namespace {

constexpr Node kSolvedAtOnce = 256;
constexpr Node kRatio = 4;        // of vertices to those of the sample
constexpr Node kAtOnce = 1024;    // bounds of a row: they stay in the cache
constexpr Node kRows = 64;        // that a thread takes at once
constexpr Node kSampleRows = 64;  // that tell how many pairs are near
constexpr Node kNear = 10;        // pairs per vertex in the core, about
constexpr Node kMost = 64;        // pairs of a row
constexpr Node kFewLeft = 16;
constexpr int kMostPasses = 32;  // with limits on duals
constexpr int kPatience = 6;     // passes for a sample that tells how hard the whole is
constexpr Node kTelling = 1000;  // vertices of such a sample
constexpr double kMoreReach = 4;
constexpr double kMostReach = 0x1p58;
constexpr double kLeastReach = 0x1p34;  // where pairs are tied

// Of the graph and of its samples, the largest first; all even but the first.
std::vector<Node> sizes_of_samples(Node n) {
    std::vector<Node> sizes{n};
    while (sizes.back() > kSolvedAtOnce) {
        sizes.push_back(sizes.back() / kRatio / 2 * 2);
    }
    return sizes;
}

class Priced {
  public:
    Priced(const PairWeights& weights, Interrupt* interrupt)
        : weights_(weights), deadline_(kNoLimit, interrupt), interrupt_(interrupt) {}

    std::optional<Matching> run() {
        std::vector<Node> sizes = sizes_of_samples(weights_.size());
        add_vertices(sizes.back());
        core_ = pairs_near(2 * kMostReach, size());
        solve(false);
        for (sizes.pop_back(); !sizes.empty() && !deadline_.look(); sizes.pop_back()) {
            add_vertices(sizes.back());
            if (!solve_level()) {
                return std::nullopt;
            }
        }
        found_.mate.resize(weights_.size(), -1);
        for (auto& mate : found_.mate) {
            mate = mate < size() ? mate : -1;
        }
        return std::move(found_);
    }

  private:
    Node size() const { return static_cast<Node>(duals_.size()); }

    // Calls visit(v, bound) for the vertices from `first` to `last` - 1.
    template <class Visit>
    void for_bounds(Node u, Node first, Node last, Visit visit) const {
        double bounds[kAtOnce];
        for (Node start = first; start < last; start += kAtOnce) {
            const Node end = std::min<Node>(last, start + kAtOnce);
            weights_.bound(u, start, end, bounds);
            for (Node v = start; v < end; ++v) {
                visit(v, bounds[v - start]);
            }
        }
    }

    // Calls work(v, number of its block) for vertices from `first` on; a block is one thread's.
    template <class Work>
    void for_rows(Node first, Work work) {
        in_parallel(
            static_cast<std::size_t>((size() - first + kRows - 1) / kRows), 2,
            [&](std::size_t block) {
                const Node start = first + static_cast<Node>(block) * kRows;
                for (Node v = start; v < std::min<Node>(size(), start + kRows); ++v) {
                    work(v, block);
                }
            },
            [&] { deadline_.look(); });
    }

    // The next vertices get the lowest duals that cover their pairs with those before.
    void add_vertices(Node wanted) {
        const Node before = size();
        duals_.resize(wanted, 0);
        mate_.resize(wanted, -1);
        for_rows(before, [&](Node v, std::size_t) {
            double largest = 0;
            for_bounds(v, 0, before, [&](Node u, double bound) {
                largest = std::max(largest, 2 * bound - static_cast<double>(duals_[u]));
            });
            duals_[v] = static_cast<std::int64_t>(largest);
        });
        found_ = {};
    }

    // False: duals come to rest too slowly.
    bool solve_level() {
        own_reach_.assign(size(), 1.0);
        reach_.resize(size());
        double common = 1;
        Node left = size();
        for (int pass = 0; !deadline_.look(); ++pass) {
            if (pass == kPatience && size() >= kTelling) {
                return false;
            }
            set_reaches(common);
            core_ = pairs_near(0, kMost);
            const Node before = std::exchange(left, solve(true));
            if (left > kFewLeft && pass < kMostPasses) {
                common = left > before / 2 ? kMoreReach * common : std::max(1.0, common / 16);
            } else if (common > 1 && pass < kMostPasses) {
                common = 1;
            } else if (solve_without_limits(pass >= kMostPasses)) {
                return true;
            } else {
                common = kMoreReach;
            }
        }
        return true;
    }

    // Whether all pairs are covered in the end; not if so many were lacking that it is better to
    // go on from where the duals were. The core only grows, so that it ends.
    bool solve_without_limits(bool is_last_resort) {
        const auto duals = duals_;
        const auto mate = mate_;
        while (!deadline_.look()) {
            solve(false);
            const auto lacking = pairs_lacking();
            if (lacking.empty()) {
                return true;
            }
            if (std::ssize(lacking) > size() && !is_last_resort) {
                duals_ = duals;
                mate_ = mate;
                return false;
            }
            core_.insert(core_.end(), lacking.begin(), lacking.end());
        }
        return true;
    }

    // About kNear pairs per vertex have no more slack than twice the common reach, by some rows.
    void set_reaches(double common) {
        std::vector<double> slacks;
        for (std::int64_t i = 0; i < kSampleRows; ++i) {
            const auto u = static_cast<Node>(i * size() / kSampleRows);
            for_bounds(u, 0, size(), [&](Node v, double bound) {
                if (u != v) {
                    slacks.push_back(static_cast<double>(duals_[u] + duals_[v]) - 2 * bound);
                }
            });
        }
        const auto near = slacks.begin() + 2 * kNear * kSampleRows;
        std::nth_element(slacks.begin(), near, slacks.end());
        const double reach = std::max(kLeastReach, *near / 2);
        for (Node v = 0; v < size(); ++v) {
            const double wanted = reach * std::max(common, own_reach_[v]);
            reach_[v] = static_cast<std::int64_t>(std::min(wanted, kMostReach));
        }
    }

    // The pairs whose slack is at most the reaches of both ends; of a row not more than `most`.
    std::vector<WeighedPair> pairs_near(double reach, Node most) {
        std::vector<double> floors(size());
        for (Node v = 0; v < size(); ++v) {
            const double own = reach_.empty() ? reach : static_cast<double>(reach_[v]);
            floors[v] = (static_cast<double>(duals_[v]) - own) / 2;
        }
        return pairs_above(floors, most, [&](const WeighedPair& pair) {
            return duals_[pair.u] + duals_[pair.v] - 2 * pair.weight;
        });
    }

    // Not covered by the duals and blossoms of the last solution.
    std::vector<WeighedPair> pairs_lacking() {
        std::vector<double> floors(size());
        for (Node v = 0; v < size(); ++v) {
            floors[v] = static_cast<double>(found_.duals[v]) / 2;
        }
        auto pairs = pairs_above(floors, kMost, [&](const WeighedPair& pair) {
            return std::min<std::int64_t>(0, slack(pair));
        });
        std::erase_if(pairs, [&](const WeighedPair& pair) { return slack(pair) >= 0; });
        return pairs;
    }

    // The pairs that weigh as much as the floors of both ends, but for the rounding of floors.
    template <class Slack>
    std::vector<WeighedPair> pairs_above(const std::vector<double>& floors, Node most,
                                         Slack slack) {
        std::vector<std::vector<WeighedPair>> found((size() + kRows - 1) / kRows);
        for_rows(0, [&](Node u, std::size_t block) {
            std::vector<WeighedPair> row;
            const auto keep = [&, own = floors[u]](Node v, double bound) {
                if (bound >= own + floors[v]) {
                    row.push_back({u, v, 0});
                }
            };
            // The half of the vertices that follows u around the circle: all rows are equally long.
            const Node n = size();
            const Node end = u + 1 + (n - (n % 2 == 0 && u < n / 2 ? 0 : 1)) / 2;
            for_bounds(u, u + 1, std::min(end, n), keep);
            for_bounds(u, 0, std::max(end - n, 0), keep);
            weights_.weigh(row);
            std::erase_if(row, [](const WeighedPair& pair) { return pair.weight <= 0; });
            shorten(row, most, slack);
            found[block].insert(found[block].end(), row.begin(), row.end());
        });
        std::vector<WeighedPair> all;
        for (const auto& block : found) {
            all.insert(all.end(), block.begin(), block.end());
        }
        return all;
    }

    // Leaves half of the most pairs by slack, and as many spread evenly over the others.
    template <class Slack>
    static void shorten(std::vector<WeighedPair>& row, Node most, Slack slack) {
        if (std::ssize(row) <= most) {
            return;
        }
        const Node half = most / 2;
        std::ranges::nth_element(row, row.begin() + half, {}, [&](const WeighedPair& pair) {
            return std::pair(slack(pair), pair.v);
        });
        std::ranges::sort(row.begin() + half, row.end(), {}, &WeighedPair::v);
        const std::int64_t others = std::ssize(row) - half;
        for (Node i = 0; i < half; ++i) {
            row[half + i] = row[half + i * others / half];
        }
        row.resize(most);
    }

    // Of the last solution. Blossoms are numbered after those around them.
    std::int64_t slack(const WeighedPair& pair) const {
        std::int64_t a = found_.innermost[pair.u];
        std::int64_t b = found_.innermost[pair.v];
        while (a != b) {
            std::int64_t& inner = a > b ? a : b;
            inner = found_.parents[inner];
        }
        return found_.duals[pair.u] + found_.duals[pair.v] + (a < 0 ? 0 : around_[a]) -
               2 * pair.weight;
    }

    // Solves the core, and returns how many vertices the limits on duals leave over. As a sparse
    // graph: a vertex n + v that only v can have, worth as much to it as it may sink.
    Node solve(bool is_limited) {
        const Node n = size();
        std::vector<WeighedPair> pairs = core_;
        auto duals = duals_;
        for (Node v = 0; v < n && is_limited; ++v) {
            pairs.push_back({v, n + v, (duals_[v] - reach_[v] + 1) / 2});
        }
        duals.resize(is_limited ? 2 * n : n, 0);
        if (n % 2 == 1) {
            const auto guest = static_cast<Node>(duals.size());
            const std::int64_t most = *std::ranges::max_element(duals_) / 2 + 1;
            for (Node v = 0; v < n; ++v) {
                pairs.push_back({v, guest, most});
            }
            duals.push_back(2 * most);
        }
        mate_.resize(duals.size(), -1);
        solve_sparsely(pairs, {duals, mate_});
        Node left = 0;
        mate_.resize(n);
        for (Node v = 0; v < n; ++v) {
            const bool is_left = found_.mate[v] == n + v && is_limited;
            left += is_left ? 1 : 0;
            own_reach_.empty() ? void() : void(own_reach_[v] *= is_left ? kMoreReach : 1);
            mate_[v] = found_.mate[v] < n ? found_.mate[v] : -1;
        }
        return left;
    }

    void solve_sparsely(std::span<const WeighedPair> pairs, const Start& start) {
        std::vector<std::int64_t> offsets(start.duals.size() + 1, 0);
        for (const auto& [u, v, weight] : pairs) {
            ++offsets[u];
            ++offsets[v];
        }
        std::int64_t end = 0;
        for (std::int64_t& offset : offsets) {
            end += offset;
            offset = end;
        }
        std::vector<Node> neighbours(end);
        std::vector<std::int64_t> weights(end);
        for (const auto& [u, v, weight] : pairs) {
            neighbours[--offsets[u]] = v;
            weights[offsets[u]] = weight;
            neighbours[--offsets[v]] = u;
            weights[offsets[v]] = weight;
        }
        found_ = solve_sparse(std::ssize(start.duals), offsets, neighbours, weights, start, 1,
                              kNoLimit, interrupt_);
        around_ = found_.blossom_duals;
        for (std::size_t x = 0; x < around_.size(); ++x) {
            around_[x] += found_.parents[x] < 0 ? 0 : around_[found_.parents[x]];
        }
        for (Node v = 0; v < size(); ++v) {
            const auto blossom = found_.innermost[v];
            duals_[v] = found_.duals[v] + (blossom < 0 ? 0 : around_[blossom] / 2);
        }
    }

    const PairWeights& weights_;
    Deadline deadline_;
    Interrupt* interrupt_;
    std::vector<std::int64_t> duals_;  // that would do without blossoms
    std::vector<std::int64_t> mate_;   // of the core
    std::vector<std::int64_t> reach_;  // by which the dual may sink at once
    std::vector<double> own_reach_;    // as a factor
    std::vector<WeighedPair> core_;
    Matching found_;                    // the last solution
    std::vector<std::int64_t> around_;  // per blossom, its dual and those of all around it
};

}  // namespace

std::vector<Node> nested_samples(std::vector<Node> by_likeness) {
    std::vector<Node> order(by_likeness.size());
    std::vector<Node> chosen;
    const auto sizes = sizes_of_samples(static_cast<Node>(order.size()));
    for (std::size_t level = 0; level + 1 < sizes.size(); ++level) {
        const std::int64_t n = sizes[level];
        const std::int64_t wanted = sizes[level + 1];
        auto next = order.begin() + wanted;
        chosen.clear();
        for (std::int64_t i = 0; i < n; ++i) {
            if ((i + 1) * wanted / n > i * wanted / n) {
                chosen.push_back(by_likeness[i]);
            } else {
                *next++ = by_likeness[i];
            }
        }
        by_likeness = chosen;
    }
    std::ranges::copy(by_likeness, order.begin());
    return order;
}

std::optional<Matching> solve_priced(const PairWeights& weights, Interrupt* interrupt) {
    return Priced(weights, interrupt).run();
}

}  // namespace hivecore::matching
