// Complete graphs whose weights are computed when they are asked for: no matrix is stored.
//
// Few of the pairs can matter. Some of each vertex, the *core*, are solved as a sparse graph. Its
// duals are *priced*: one pass over all pairs finds those that duals and blossoms do not cover. Of
// each vertex the worst ones enter the core, which is solved again from where duals and pairs are.
// When there are none, the duals prove the matching the heaviest of the complete graph.
//
// A fourth of the vertices, solved first in the same way, say where to begin: the duals of
// the others follow as the lowest that cover their pairs with these. Of each vertex some pairs of
// little slack then make the core, and the best pair with each stretch of the others: where many
// vertices are nearly alike, all their duals sink until a pair with others holds them.
// Where an odd number of vertices has to leave one over, a guest joins that all like equally and
// more than each other: otherwise a blossom would hold all of them and cover all pairs.
//
// Cost: O(n^2) weights computed per pass, by two threads: some five passes where weights are
// spread, ten to twenty where most are nearly tied, sixty where they differ by hardly more than
// rounding. Memory O(n) beside that of the weights.
// Deterministic. Source: Applegate and Cook (1993).

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "matching/matching.hpp"
#include "matching/parallel.hpp"

namespace hivecore::matching {
namespace {

constexpr Node kSolvedAtOnce = 256;
constexpr Node kRatio = 4;     // of vertices to those of the sample
constexpr Node kRows = 64;     // that a thread takes at once
constexpr Node kParts = 32;    // of a row, from each of which a pair may enter the first core
constexpr Node kNear = 6;      // of a row's pairs of little slack
constexpr Node kLacking = 12;  // pairs of a row that enter the core at once

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

    Matching run() {
        for (auto sizes = sizes_of_samples(weights_.size()); !sizes.empty() && !deadline_.look();
             sizes.pop_back()) {
            add_vertices(sizes.back());
            solve_all();
        }
        found_.mate.resize(weights_.size(), -1);
        for (auto& mate : found_.mate) {
            mate = mate < size() ? mate : -1;
        }
        return std::move(found_);
    }

  private:
    // A pair of a vertex that is known, and its slack but for rounding.
    struct Candidate {
        double slack = std::numeric_limits<double>::infinity();
        Node v = -1;
        auto operator<=>(const Candidate&) const = default;
    };

    Node size() const { return static_cast<Node>(duals_.size()); }

    // Calls work(first, last, number of the block) for blocks of the vertices from `first` on, each
    // on one thread.
    template <class Work>
    void for_blocks(Node first, Work work) {
        in_parallel(
            static_cast<std::size_t>((size() - first + kRows - 1) / kRows), 2,
            [&](std::size_t block) {
                const Node start = first + static_cast<Node>(block) * kRows;
                work(start, std::min<Node>(size(), start + kRows), block);
            },
            [&] { deadline_.look(); });
    }

    // The next vertices get the lowest duals that cover their pairs with those before.
    void add_vertices(Node wanted) {
        const Node before = size();
        duals_.resize(wanted, 0);
        mate_.resize(wanted, -1);
        for_blocks(before, [&](Node first, Node last, std::size_t) {
            std::vector<double> row(before);
            for (Node v = first; v < last; ++v) {
                weights_.bound(v, 0, before, row.data());
                double largest = 0;
                for (Node u = 0; u < before; ++u) {
                    largest = std::max(largest, 2 * row[u] - static_cast<double>(duals_[u]));
                }
                duals_[v] = static_cast<std::int64_t>(largest);
            }
        });
        found_ = {{}, duals_, std::vector<std::int64_t>(wanted, -1), {}, {}};
    }

    // The core only grows, so that it ends.
    void solve_all() {
        core_ = pairs_of_rows(
            [this](Node u, const auto& row, auto& pairs) { choose_first(u, row, pairs); });
        while (!deadline_.look()) {
            solve_core();
            const auto lacking = pairs_of_rows(
                [this](Node u, const auto& row, auto& pairs) { choose_lacking(u, row, pairs); });
            if (lacking.empty()) {
                return;
            }
            core_.insert(core_.end(), lacking.begin(), lacking.end());
        }
    }

    // What choose(u, row, pairs) adds of each vertex u. Its row: the slacks, but for rounding, of
    // the half of the vertices that follows u around the circle, so that all rows are equally long.
    template <class Choose>
    std::vector<WeighedPair> pairs_of_rows(Choose choose) {
        std::vector<std::vector<WeighedPair>> by_block((size() + kRows - 1) / kRows);
        for_blocks(0, [&](Node first, Node last, std::size_t block) {
            std::vector<double> cover(found_.duals.begin(), found_.duals.end());
            std::vector<double> row;
            for (Node u = first; u < last; ++u) {
                for_company(u, [&](Node v, std::int64_t dual) {
                    cover[v] = static_cast<double>(found_.duals[v] + dual);
                });
                write_row(u, cover, row);
                for_company(u, [&](Node v, std::int64_t) {
                    cover[v] = static_cast<double>(found_.duals[v]);
                });
                choose(u, row, by_block[block]);
            }
        });
        std::vector<WeighedPair> all;
        for (const auto& block : by_block) {
            all.insert(all.end(), block.begin(), block.end());
        }
        return all;
    }

    void write_row(Node u, const std::vector<double>& cover, std::vector<double>& row) const {
        const Node n = size();
        row.resize((n - (n % 2 == 0 && u < n / 2 ? 0 : 1)) / 2);
        const auto own = static_cast<double>(found_.duals[u]);
        const auto write = [&](Node first, Node last, double* slacks) {
            weights_.bound(u, first, last, slacks);
            for (Node v = first; v < last; ++v) {
                slacks[v - first] = own + cover[v] - 2 * slacks[v - first];
            }
        };
        const auto length = static_cast<Node>(row.size());
        const Node before_end = std::min(length, n - 1 - u);
        write(u + 1, u + 1 + before_end, row.data());
        write(0, length - before_end, row.data() + before_end);
    }

    Node in_row(Node u, std::size_t place) const {
        return static_cast<Node>((u + 1 + place) % size());
    }

    // The best of some parts that mix all of the row, nearly its best ones; and the best of each
    // stretch.
    void choose_first(Node u, const std::vector<double>& row,
                      std::vector<WeighedPair>& pairs) const {
        std::array<Candidate, 2 * kParts> best;
        const std::size_t stretch = row.size() / kParts + 1;
        for (std::size_t i = 0; i < row.size(); ++i) {
            for (Candidate* part : {&best[i % kParts], &best[kParts + i / stretch]}) {
                if (row[i] < part->slack) {
                    *part = {row[i], in_row(u, i)};
                }
            }
        }
        std::sort(best.begin(), best.begin() + kParts);
        std::fill(best.begin() + kNear, best.begin() + kParts, Candidate());
        std::ranges::sort(best, {}, &Candidate::v);
        std::vector<WeighedPair> row_pairs;
        for (const auto& [slack, v] : best) {
            if (v >= 0 && (row_pairs.empty() || row_pairs.back().v != v)) {
                row_pairs.push_back({u, v, 0});
            }
        }
        weights_.weigh(row_pairs);
        std::ranges::copy_if(row_pairs, std::back_inserter(pairs),
                             [](const WeighedPair& pair) { return pair.weight > 0; });
    }

    // Of the pairs that duals and blossoms do not cover those that lack most, by bounds.
    void choose_lacking(Node u, const std::vector<double>& row,
                        std::vector<WeighedPair>& pairs) const {
        std::vector<Candidate> candidates;
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (row[i] < 0) {
                candidates.push_back({row[i], in_row(u, i)});
            }
        }
        const std::size_t before = pairs.size();
        auto last = candidates.begin();
        while (last != candidates.end() && pairs.size() < before + kLacking) {
            const auto first = last;
            last += std::min<std::ptrdiff_t>(kLacking, candidates.end() - first);
            std::partial_sort(first, last, candidates.end());
            std::vector<WeighedPair> worst;
            for (auto candidate = first; candidate != last; ++candidate) {
                worst.push_back({u, candidate->v, 0});
            }
            weights_.weigh(worst);
            std::ranges::copy_if(worst, std::back_inserter(pairs),
                                 [&](const WeighedPair& pair) { return slack(pair) < 0; });
        }
    }

    // The vertices of each blossom follow each other, also those of the blossoms in it.
    void lay_out_blossoms() {
        const auto& parents = found_.parents;
        std::vector<Node> counts(parents.size(), 0);
        for (const auto blossom : found_.innermost) {
            if (blossom >= 0) {
                ++counts[blossom];
            }
        }
        for (std::size_t x = parents.size(); x-- > 0;) {
            if (parents[x] >= 0) {
                counts[parents[x]] += counts[x];
            }
        }
        first_.resize(parents.size());
        last_.resize(parents.size());
        Node end = 0;
        for (std::size_t x = 0; x < parents.size(); ++x) {
            Node& place = parents[x] < 0 ? end : last_[parents[x]];
            first_[x] = last_[x] = place;
            place += counts[x];
        }
        inside_.resize(end);
        for (std::size_t v = 0; v < found_.innermost.size(); ++v) {
            if (found_.innermost[v] >= 0) {
                inside_[last_[found_.innermost[v]]++] = static_cast<Node>(v);
            }
        }
        around_ = found_.blossom_duals;
        for (std::size_t x = 0; x < around_.size(); ++x) {
            around_[x] += parents[x] < 0 ? 0 : around_[parents[x]];
        }
    }

    // Calls visit(v, dual) for each vertex in a blossom with u: the duals of all that hold both.
    template <class Visit>
    void for_company(Node u, Visit visit) const {
        auto x = found_.innermost[u];
        for (Node first = x < 0 ? 0 : first_[x], last = first; x >= 0; x = found_.parents[x]) {
            for (; first > first_[x]; --first) {
                visit(inside_[first - 1], around_[x]);
            }
            for (; last < last_[x]; ++last) {
                visit(inside_[last], around_[x]);
            }
        }
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

    void solve_core() {
        const Node n = size();
        std::vector<WeighedPair> pairs = core_;
        auto duals = duals_;
        if (n % 2 == 1) {
            const std::int64_t most = *std::ranges::max_element(duals_) / 2 + 1;
            for (Node v = 0; v < n; ++v) {
                pairs.push_back({v, n, most});
            }
            duals.push_back(2 * most);
        }
        mate_.resize(duals.size(), -1);
        solve_sparsely(pairs, {duals, mate_});
        mate_ = found_.mate;
        for (Node v = 0; v < n; ++v) {
            const auto blossom = found_.innermost[v];
            duals_[v] = found_.duals[v] + (blossom < 0 ? 0 : around_[blossom] / 2);
        }
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
        lay_out_blossoms();
    }

    const PairWeights& weights_;
    Deadline deadline_;
    Interrupt* interrupt_;
    std::vector<std::int64_t> duals_;  // that would do without blossoms
    std::vector<std::int64_t> mate_;   // of the core
    std::vector<WeighedPair> core_;
    Matching found_;                    // the last solution
    std::vector<Node> inside_;          // blossoms: their vertices,
    std::vector<Node> first_;           // and per blossom where its own begin
    std::vector<Node> last_;            // and end
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

Matching solve_priced(const PairWeights& weights, Interrupt* interrupt) {
    return Priced(weights, interrupt).run();
}

}  // namespace hivecore::matching
