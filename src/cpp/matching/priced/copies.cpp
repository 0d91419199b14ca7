// Many vertices of few kinds: those of one kind have the same weights.
//
// How many pairs there are of each two kinds is found for half as many vertices of each kind first,
// and so on. Twice that, but for a few pairs of each two kinds, is kept. The rest is solved as a
// graph of single vertices. Its duals prove the whole if each pair kept has a like: two vertices of
// the same kinds in the same blossoms, or in none, that are tight, while pairs within either kind
// are covered. Then the vertices kept may take the duals and places of those: a blossom of two more
// vertices holds one more pair. If one has no like, more pairs are taken apart.
//
// Cost: some graphs of a few vertices for each two kinds that are paired. Proximity of this sort
// was shown by Edmonds and Johnson (1970).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "matching/matching.hpp"

namespace hivecore::matching {
namespace {

using Kinds = std::pair<Node, Node>;  // the lower first; the second kNobody of vertices left free

constexpr Node kNobody = -1;
constexpr std::int64_t kFew = 512;       // vertices, solved without halving
constexpr std::int64_t kTakenApart = 2;  // pairs of each two kinds
constexpr std::int64_t kMoreApart = 4;   // so many times as many where that is not enough

class Copies {
  public:
    Copies(std::span<const Node> kind_of, std::span<const std::int64_t> weights, Node most,
           Interrupt* interrupt)
        : weights_(weights),
          kinds_(static_cast<Node>(std::sqrt(weights.size()) + 0.5)),
          heaviest_(*std::ranges::max_element(weights)),
          most_(most),
          interrupt_(interrupt),
          vertices_(kinds_) {
        for (std::size_t v = 0; v < kind_of.size(); ++v) {
            vertices_[kind_of[v]].push_back(static_cast<Node>(v));
        }
    }

    bool run() {
        int halvings = 0;
        while (count(halvings) > kFew) {
            ++halvings;
        }
        for (; halvings >= 0; --halvings) {
            for (auto& [kinds, pairs] : pairs_) {
                pairs *= 2;
            }
            if (!solve(halvings)) {
                return false;
            }
        }
        return true;
    }

    std::vector<std::int64_t> mates(std::size_t n) {
        std::vector<std::int64_t> mate(n, -1);
        const auto take = [&](Node kind) {
            const Node v = vertices_[kind].back();
            vertices_[kind].pop_back();
            return v;
        };
        for (const auto& [kinds, pairs] : pairs_) {
            for (std::int64_t i = 0; i < pairs && kinds.second != kNobody; ++i) {
                const Node u = take(kinds.first);
                const Node v = take(kinds.second);
                mate[u] = v;
                mate[v] = u;
            }
        }
        return mate;
    }

  private:
    std::int64_t weight(Node a, Node b) const {
        return weights_[static_cast<std::size_t>(a) * kinds_ + b];
    }

    std::int64_t of_kind(Node kind, int halvings) const {
        return std::ssize(vertices_[kind]) >> halvings;
    }

    std::int64_t count(int halvings) const {
        std::int64_t all = 0;
        for (Node kind = 0; kind < kinds_; ++kind) {
            all += of_kind(kind, halvings);
        }
        return all;
    }

    // False if too many vertices would have to be solved at once.
    bool solve(int halvings) {
        std::map<Kinds, std::int64_t> taken_apart;
        for (;;) {
            std::map<Kinds, std::int64_t> kept;
            std::vector<std::int64_t> left(kinds_);
            for (Node kind = 0; kind < kinds_; ++kind) {
                left[kind] = of_kind(kind, halvings);
            }
            for (const auto& [kinds, pairs] : pairs_) {
                const auto apart = taken_apart.try_emplace(kinds, kTakenApart).first->second;
                if (pairs > apart) {
                    // An even number, so that an odd number of vertices is odd without them.
                    const std::int64_t more = (pairs - apart) / 2 * 2;
                    kept[kinds] = more;
                    left[kinds.first] -= more;
                    if (kinds.second != kNobody) {
                        left[kinds.second] -= more;
                    }
                }
            }
            std::vector<Node> kind_of;
            for (Node kind = 0; kind < kinds_; ++kind) {
                kind_of.insert(kind_of.end(), left[kind], kind);
            }
            if (std::ssize(kind_of) > most_) {
                return false;
            }
            const Matching matching = solve_singly(kind_of);
            bool is_proved = true;
            for (const auto& [kinds, pairs] : kept) {
                if (pairs > 0 && !has_like(kinds, kind_of, matching)) {
                    taken_apart[kinds] *= kMoreApart;
                    is_proved = false;
                }
            }
            if (is_proved ||
                (interrupt_ != nullptr && interrupt_->has_come(Interrupt::Clock::now()))) {
                pairs_ = std::move(kept);
                add_pairs(kind_of, matching);
                return true;
            }
        }
    }

    // An odd number gets a guest that all like equally: otherwise a blossom would hold them all.
    Matching solve_singly(const std::vector<Node>& kind_of) const {
        const auto n = std::ssize(kind_of);
        const auto all = n + n % 2;
        std::vector<std::int64_t> square(all * all);
        for (std::int64_t i = 0; i < all; ++i) {
            for (std::int64_t j = 0; j < all; ++j) {
                square[i * all + j] = i == n || j == n ? heaviest_ : weight(kind_of[i], kind_of[j]);
            }
        }
        constexpr auto kEntry = static_cast<std::int64_t>(sizeof(std::int64_t));
        const Strided<std::int64_t> strided{reinterpret_cast<const std::byte*>(square.data()), all,
                                            all, all * kEntry, kEntry};
        return solve_dense(strided, {0, 1, 0, heaviest_}, {}, kNoLimit, interrupt_);
    }

    // Where vertices of a kind are: the innermost blossom and the dual; if pairs within the kind
    // are covered there.
    using Spot = std::pair<std::int64_t, std::int64_t>;

    std::vector<Spot> spots_of(Node kind, const std::vector<Node>& kind_of,
                               const Matching& matching) const {
        std::vector<Spot> spots;
        const auto [first, last] = std::ranges::equal_range(kind_of, kind);
        for (auto v = first - kind_of.begin(); v < last - kind_of.begin(); ++v) {
            const Spot spot{matching.innermost[v], matching.duals[v]};
            if (2 * spot.second + around(spot.first, matching) >= 2 * weight(kind, kind)) {
                spots.push_back(spot);
            }
        }
        std::ranges::sort(spots);
        const auto again = std::ranges::unique(spots);
        spots.erase(again.begin(), again.end());
        return spots;
    }

    // The duals of a blossom and of all around it.
    static std::int64_t around(std::int64_t blossom, const Matching& matching) {
        std::int64_t sum = 0;
        for (; blossom >= 0; blossom = matching.parents[blossom]) {
            sum += matching.blossom_duals[blossom];
        }
        return sum;
    }

    bool has_like(Kinds kinds, const std::vector<Node>& kind_of, const Matching& matching) const {
        const auto first = spots_of(kinds.first, kind_of, matching);
        if (kinds.second == kNobody) {
            return std::ranges::binary_search(first, Spot{-1, 0});
        }
        const auto second = spots_of(kinds.second, kind_of, matching);
        const std::int64_t whole = 2 * weight(kinds.first, kinds.second);
        return std::ranges::any_of(first, [&](const Spot& spot) {
            const auto& [blossom, dual] = spot;
            const Spot wanted{blossom, whole - around(blossom, matching) - dual};
            return std::ranges::binary_search(second, wanted);
        });
    }

    void add_pairs(const std::vector<Node>& kind_of, const Matching& matching) {
        const auto n = std::ssize(kind_of);
        for (std::int64_t v = 0; v < n; ++v) {
            const std::int64_t mate = matching.mate[v];
            if (mate < 0 || mate == n) {
                ++pairs_[{kind_of[v], kNobody}];
            } else if (v < mate) {
                ++pairs_[{kind_of[v], kind_of[mate]}];
            }
        }
    }

    std::span<const std::int64_t> weights_;
    Node kinds_;
    std::int64_t heaviest_;
    Node most_;
    Interrupt* interrupt_;
    std::vector<std::vector<Node>> vertices_;  // per kind
    std::map<Kinds, std::int64_t> pairs_;      // how many of each two kinds
};

}  // namespace

std::optional<std::vector<std::int64_t>> solve_copies(std::span<const Node> kind_of,
                                                      std::span<const std::int64_t> weights,
                                                      Node most, Interrupt* interrupt) {
    Copies copies(kind_of, weights, most, interrupt);
    return copies.run() ? std::optional(copies.mates(kind_of.size())) : std::nullopt;
}

}  // namespace hivecore::matching
