// Where gangs go in a network: the narrowest domain that holds all, and in it the least domains.
//
// Slots are summed up from the nodes to the whole network, and each level knows its largest sum, so
// the narrowest level of which a domain may hold all is known at once. Of its domains the one is
// searched first that would touch the fewest others if those could be chosen freely, level by
// level; the search ends when no other one can be better than the best that was found.
//
// Of domains that cost the same, the one in the fullest wider domain wins: the fewest slots in its
// parent, then in the parent of that, and so on; then the lowest number. So idle parts of the
// network stay idle. Existing pods count in wider domains as well, the most first.
//
// What was found for domains is kept for the last few kinds of gangs, by the number of pods, until
// slots below a domain change. The best child of each domain is at the top of a tournament. What is
// around its domain does not matter there, so a change of slots replays only the matches on its way
// to the root.
//
// Invariants: a sum is that of the slots below; what is kept of a domain is its cost, or, if it is
// not marked as exact, at most that.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/cost.hpp"
#include "topology/max_tree.hpp"
#include "topology/network.hpp"
#include "topology/search.hpp"

namespace hivecore::topology {

// The largest number of slots of a node.
inline constexpr std::int64_t kMostSlots = std::int64_t{1} << 31;

struct Placement {
    int level = -1;  // of the domain that holds all; -1: none can
    std::int32_t domain = 0;
    std::vector<NodePods> pods;
    // Whether the search came to its end; if not, there may be a better one, or one at all.
    bool is_optimal = true;
    // If it did not, by level below: how many domains of it have to be touched at least.
    std::vector<std::int64_t> fewest;
};

class NetworkTopology {
  public:
    explicit NetworkTopology(std::shared_ptr<const Network> network);

    const Network& network() const { return *network_; }
    void set_slots(std::int32_t node, std::int64_t slots);
    std::span<const std::int64_t> slots(int level) const { return slots_[level]; }

    // `others`: the slots of the second role, if there is one; then no level has a multiple.
    Placement place(const Wish& wish, const NetworkTopology* others = nullptr);

    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    static constexpr std::size_t kKinds = 8;
    static constexpr std::int64_t kMostCells = 1 << 20;  // of a row that is searched
    static constexpr std::uint64_t kAudited = 1 << 24;   // cells of a search that an audit repeats

    // Gangs of so many pods, held by a domain of this level.
    struct Kind {
        std::int64_t pods = 0;
        int level = 0;
        CostLayout inside, whole;
        std::vector<std::int64_t> most_slots;  // by level, as far as the layouts go
        std::vector<Cost<2>> costs;            // by domain, in the whole layout
        std::vector<std::uint8_t> exact, changed;
        std::vector<std::int32_t> dirty;
        // By level: of each domain of it a tournament of its children, next to each other.
        std::vector<std::vector<std::int32_t>> winners;
    };

    // Of two roles: what a domain has of both at once is worth at most so much, where each pod and
    // each of the others has a worth of its own.
    struct Worth {
        Sums sums;
        std::int64_t all;  // of the gang
    };

    // What a search of one level goes by.
    struct Question {
        const Wish& wish;
        int held;
        const Sums& existing;
        std::span<const std::int64_t> most_existing;
        const Sums& slots;   // of all roles together
        const Sums* others;  // of the second role, or null
        const Worth* worth;  // if there is one
    };
    // What a domain that holds all costs, one number after the other, but for the slots around it.
    using Numbers = std::vector<std::int64_t>;

    CostLayout layout_of(const Question& question, std::span<const std::int64_t> most_slots,
                         bool whole) const;
    std::vector<std::int64_t> most_slots() const;
    Numbers fewest(const Sums& slots, int held, std::int32_t domain, std::int64_t pods) const;
    Numbers fewest(const Question& question, std::int32_t domain) const;
    Worth worth(const Wish& wish, const Sums& others) const;
    Numbers bound(const Question& question, std::int32_t domain) const;
    void add_around(const Sums& sums, std::span<const std::int64_t> most, int level,
                    std::int32_t domain, Numbers& numbers) const;
    template <int kWords>
    Numbers numbers(const Question& question, const CostLayout& inside, std::int32_t domain,
                    const Cost<kWords>& cost) const;
    template <int kWords>
    bool search(const Question& question, const CostLayout& layout, Placement& placement) const;
    bool answer(const Question& question, Placement& placement) const;
    std::uint64_t cells(int held, std::int32_t domain, std::int64_t row, int words) const;
    void fill(int level, std::int32_t domain, std::int64_t pods,
              std::vector<NodePods>& placed) const;

    Kind* kind_of(const Question& question);
    static void touch(Kind& kind, std::int32_t domain);
    static void keep(Kind& kind, std::int32_t domain, const Numbers& numbers, bool is_exact);
    bool comes_before(const Kind& kind, int level, std::int32_t a, std::int32_t b) const;
    std::int32_t winner(const Kind& kind, int level, std::int32_t domain) const;
    void replay(Kind& kind, std::int32_t domain) const;
    void replay_all(Kind& kind) const;
    bool answer_again(const Question& question, Kind& kind, Placement& placement);

    std::shared_ptr<const Network> network_;
    Sums slots_;
    std::vector<MaxTree> largest_;  // by level
    std::list<Kind> kinds_;         // the last one that was asked for first
};

}  // namespace hivecore::topology
