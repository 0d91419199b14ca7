// Complete graphs whose weights are computed when they are asked for: no matrix is stored.
//
// Few of the pairs can matter. Some of each vertex, the *core*, are solved as a sparse graph. Its
// duals are *priced*: one pass over all pairs finds those that duals and blossoms do not cover. Of
// each vertex the worst ones enter the core, which is solved again from where duals and pairs are.
// When there are none, the duals prove the matching the heaviest of the complete graph.
//
// A fourth of the vertices, solved first in the same way, say where to begin: the duals of
// the others follow as the lowest that cover their pairs with these. Of each vertex some pairs of
// little slack then make the core, and the best pair with each part of the others: where many
// vertices are nearly alike, all their duals sink until a pair with others holds them.
//
// Most pairs have far more slack than duals fall between two passes. Of each vertex and each
// stretch of others, which are alike where they are near each other, the least slack of the last
// look is kept; the next passes look only where duals have fallen by as much since.
//
// Where an odd number of vertices has to leave one over, a guest joins that all like equally and
// more than each other: otherwise a blossom would hold all of them and cover all pairs.
//
// Cost: O(n^2) weights computed in the first pass, by two threads, and a third to a hundredth of
// them in each of the next ones: some five where weights are spread, ten to twenty where most are
// nearly tied, sixty where they differ by hardly more than rounding. Memory O(n), 1 KiB a vertex at
// most, beside that of the weights.
// Deterministic. Source: Applegate and Cook (1993).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include "matching/matching.hpp"
#include "matching/parallel.hpp"

namespace hivecore::matching {
namespace {

constexpr Node kSolvedAtOnce = 256;
constexpr Node kRatio = 4;     // of vertices to those of the sample
constexpr Node kRows = 64;     // that a thread takes at once
constexpr Node kParts = 32;    // of a row, of each of which the best pair enters the first core
constexpr Node kMixed = 8;     // more parts, that mix all of the row
constexpr Node kLacking = 12;  // pairs of a row that enter the core at once
constexpr Node kStretch = 64;  // vertices that are looked at together, or a share of all if more:
constexpr Node kStretches = 256;
constexpr double kRounding = 1e-13;  // more than sums of some duals and weights are off, relatively

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
        forget_rows();
        core_ = pairs_of_rows(
            [this](Node u, const auto& look, auto& pairs) { choose_first(u, look, pairs); });
        while (!deadline_.look()) {
            solve_core();
            note_fallen_duals();
            const auto lacking = pairs_of_rows(
                [this](Node u, const auto& look, auto& pairs) { choose_lacking(u, look, pairs); });
            if (lacking.empty()) {
                return;
            }
            core_.insert(core_.end(), lacking.begin(), lacking.end());
        }
    }

    void forget_rows() {
        stretch_ = std::max(kStretch, size() / kStretches);
        // Whole ones, and some that are cut: where the row begins and ends, and the last of all.
        stretches_of_row_ = size() / 2 / stretch_ + 3;
        least_.assign(static_cast<std::size_t>(size()) * stretches_of_row_,
                      -std::numeric_limits<double>::infinity());
        fallen_.assign(size() / stretch_ + 1, 0);
        seen_duals_ = found_.duals;
    }

    void note_fallen_duals() {
        std::vector<std::int64_t> most(fallen_.size(), 0);
        for (Node v = 0; v < size(); ++v) {
            std::int64_t& fall = most[v / stretch_];
            fall = std::max(fall, seen_duals_[v] - found_.duals[v]);
        }
        std::ranges::transform(fallen_, most, fallen_.begin(), std::plus<double>());
        seen_duals_ = found_.duals;
    }

    // What choose(u, look, pairs) adds of each vertex u. Its row are the slacks, but for rounding,
    // of the half of the vertices that follows u around the circle, so that all rows are equally
    // long. look(visit) calls visit(place, lowest, slacks) for each stretch of the row in which
    // some may be negative; none of these slacks is below the lowest.
    template <class Choose>
    std::vector<WeighedPair> pairs_of_rows(Choose choose) {
        const std::vector<double> duals(found_.duals.begin(), found_.duals.end());
        std::vector<std::vector<WeighedPair>> by_block((size() + kRows - 1) / kRows);
        for_blocks(0, [&](Node first, Node last, std::size_t block) {
            std::vector<double> cover = duals;
            std::vector<double> slacks(stretch_);
            std::int64_t blossom = -1;
            for (Node u = first; u < last; ++u) {
                change_company(blossom, found_.innermost[u], cover);
                blossom = found_.innermost[u];
                const auto look = [&](auto visit) {
                    look_at_row(u, duals, cover, slacks.data(), visit);
                };
                choose(u, look, by_block[block]);
            }
        });
        std::vector<WeighedPair> all;
        for (const auto& block : by_block) {
            all.insert(all.end(), block.begin(), block.end());
        }
        return all;
    }

    Node length_of_row(Node u) const {
        return (size() - (size() % 2 == 0 && u < size() / 2 ? 0 : 1)) / 2;
    }

    template <class Visit>
    void look_at_row(Node u, const std::vector<double>& duals, const std::vector<double>& cover,
                     double* slacks, Visit visit) {
        const double own = duals[u];
        double* least = &least_[static_cast<std::size_t>(u) * stretches_of_row_];
        for (Node place = 0, end; place < length_of_row(u); place = end, ++least) {
            const Node first = in_row(u, place);
            const Node last = std::min(size(), (first / stretch_ + 1) * stretch_);
            end = std::min(length_of_row(u), place + last - first);
            // Without blossoms, which only add to slacks.
            const double fallen = fallen_[first / stretch_];
            if (own + *least - fallen > kRounding * (own + std::abs(*least) + fallen)) {
                continue;
            }
            weights_.bound(u, first, first + end - place, slacks);
            const std::span<double> looked(slacks, end - place);
            const double lowest = least_covered(&duals[first], looked);
            *least = lowest + fallen;
            for (std::size_t i = 0; i < looked.size(); ++i) {
                looked[i] = own + cover[first + i] - 2 * looked[i];
            }
            visit(place, own + lowest, std::span<const double>(looked));
        }
    }

    // The least of dual minus twice the weight.
    static double least_covered(const double* duals, std::span<const double> weights) {
        constexpr std::size_t kLanes = 8;
        std::array<double, kLanes> least;
        least.fill(std::numeric_limits<double>::infinity());
        std::size_t i = 0;
        for (; i + kLanes <= weights.size(); i += kLanes) {
            for (std::size_t l = 0; l < kLanes; ++l) {
                const double covered = duals[i + l] - 2 * weights[i + l];
                least[l] = covered < least[l] ? covered : least[l];
            }
        }
        for (; i < weights.size(); ++i) {
            least[0] = std::min(least[0], duals[i] - 2 * weights[i]);
        }
        return std::ranges::min(least);
    }

    Node in_row(Node u, Node place) const {
        const Node v = u + 1 + place;
        return v < size() ? v : v - size();
    }

    // The best of each part: of those that mix all of the row nearly the best of the row.
    template <class Look>
    void choose_first(Node u, const Look& look, std::vector<WeighedPair>& pairs) const {
        std::array<Candidate, kMixed + kParts> best;
        const auto mixed_end = best.begin() + kMixed;
        double worst = std::numeric_limits<double>::infinity();  // of those that mix all
        look([&](Node place, double lowest, std::span<const double> slacks) {
            Candidate& of_part = mixed_end[std::int64_t{place} * kParts / length_of_row(u)];
            if (lowest >= std::max(worst, of_part.slack)) {
                return;
            }
            for (const double slack : slacks) {
                for (Candidate* known : {&best[place % kMixed], &of_part}) {
                    if (slack < known->slack) {
                        *known = {slack, in_row(u, place)};
                    }
                }
                ++place;
            }
            worst = std::max_element(best.begin(), mixed_end)->slack;
        });
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
    template <class Look>
    void choose_lacking(Node u, const Look& look, std::vector<WeighedPair>& pairs) const {
        std::vector<Candidate> candidates;
        look([&](Node place, double lowest, std::span<const double> slacks) {
            if (lowest >= 0) {
                return;
            }
            for (const double slack : slacks) {
                if (slack < 0) {
                    candidates.push_back({slack, in_row(u, place)});
                }
                ++place;
            }
        });
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

    // The cover of a vertex v beside one of which the smallest blossom is `from`, its dual and
    // those of all blossoms around both, becomes that beside one in the blossom `to`; -1: in none.
    // Blossoms are numbered after those around them.
    void change_company(std::int64_t from, std::int64_t to, std::vector<double>& cover) const {
        const auto set = [&](Node first, Node last, std::int64_t dual) {
            for (; first < last; ++first) {
                const Node v = inside_[first];
                cover[v] = static_cast<double>(found_.duals[v] + dual);
            }
        };
        std::int64_t left = -1;  // the largest blossom around `from` and not `to`
        Node first = to < 0 ? 0 : first_[to];
        Node last = first;
        while (from != to) {
            if (from > to) {
                left = from;
                from = found_.parents[from];
            } else {
                set(first_[to], first, around_[to]);
                set(last, last_[to], around_[to]);
                first = first_[to];
                last = last_[to];
                to = found_.parents[to];
            }
        }
        if (left >= 0) {
            set(first_[left], last_[left], to < 0 ? 0 : around_[to]);
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
    Matching found_;              // the last solution
    Node stretch_ = 0;            // vertices that are looked at together
    Node stretches_of_row_ = 0;   // at most
    std::vector<double> least_;   // per vertex and stretch of its row, the least dual minus
                                  // twice the weight at the last look, plus fallen_ then
    std::vector<double> fallen_;  // per stretch, the sum of the largest falls of its duals
    std::vector<std::int64_t> seen_duals_;  // of the last pass
    std::vector<Node> inside_;              // blossoms: their vertices,
    std::vector<Node> first_;               // and per blossom where its own begin
    std::vector<Node> last_;                // and end
    std::vector<std::int64_t> around_;      // per blossom, its dual and those of all around it
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
