// The best placement of a number of pods in a domain: a knapsack over its nodes, from the last to
// the first. A row has the least cost of every number of pods. A domain is left out, or it is used:
// then it starts with a copy of the row, and its own cost is added at its end.
//
// All nodes but the last one are filled, so a row has the costs of having room for that many pods.
// If a level has a multiple or a limit, its domains start with an empty row, and each allowed
// number of pods is tried with what is left for the domains behind.
//
// The placement is read from the first node on: each domain that some best placement uses is used,
// with the most pods if there is a multiple. So among equal placements the one with the most pods
// on the first nodes is found.
//
// A gang may have two roles: pods, and others with other amounts. A row then has a cell for every
// pair of numbers, and each node has a list of the pairs that fit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "topology/cost.hpp"
#include "topology/network.hpp"

namespace hivecore::topology {

// How many pods of both roles a node has room for.
struct Option {
    std::int64_t pods, others;
};

struct Wish {
    std::int64_t pods = 1, others = 0;
    int widest = 0, narrowest = 0;        // the levels of which one domain may hold all
    std::vector<std::int64_t> multiples;  // by level; empty: no domain has one
    std::vector<std::int64_t> limits;     // by level: the most of a domain; empty: any number
    std::span<const std::int64_t> existing, cost;  // by node; empty: there are none
    std::int64_t work = 0;                         // how many cells may be computed
    // Where there are others: those of node i are from begins[i] to begins[i + 1], none of which is
    // less than another one.
    std::span<const std::int64_t> begins;
    std::span<const Option> options;
};

struct NodePods {
    std::int32_t node;
    std::int64_t pods, others;
};

// By level and domain.
using Sums = std::vector<std::vector<std::int64_t>>;

template <int kWords>
class Search {
  public:
    using Row = std::vector<Cost<kWords>>;

    // Of domains of level `held`, which are to hold all; `slots`: of all roles together. `existing`
    // is empty if there are none. The
    // layout is of what is touched below: counts, existing pods, cost, and slots, as far as they
    // matter, each of these level by level.
    Search(const Network& network, const Sums& slots, const Sums& existing, const Wish& wish,
           int held, const CostLayout& layout, std::span<const std::int64_t> most_existing);

    // The cost of what is touched if one domain of the level holds all; impossible: it cannot.
    Cost<kWords> cost(std::int32_t domain);
    // And where they are.
    std::vector<NodePods> pods(std::int32_t domain);

  private:
    Cost<kWords> touch(int level, std::int32_t domain) const;
    std::int64_t multiple(int level) const {
        return wish_.multiples.empty() ? 1 : wish_.multiples[level];
    }
    std::int64_t limit(int level) const {
        return wish_.limits.empty() ? wish_.pods : std::min(wish_.pods, wish_.limits[level]);
    }
    // Whether a domain of the level gets any number of pods.
    bool is_free(int level) const { return multiple(level) == 1 && limit(level) == wish_.pods; }
    struct Need {
        std::int64_t pods, others;
    };

    std::size_t cell(const Need& need) const { return need.others * (wish_.pods + 1) + need.pods; }
    std::size_t last_cell() const { return cell({wish_.pods, wish_.others}); }
    std::span<const Option> options(std::int32_t node) const {
        return wish_.options.subspan(wish_.begins[node],
                                     wish_.begins[node + 1] - wish_.begins[node]);
    }
    void use_options(std::int32_t node, const Cost<kWords>& touched, Row& row);
    Row empty_row() const;
    void sweep(int level, std::int32_t begin, std::int32_t end, Row& row, int depth);
    void sweep_one(int level, std::int32_t domain, Row& row, int depth);
    void add_parts(const Row& inside, const Cost<kWords>& touched, std::int64_t step,
                   std::int64_t most, Row& row);
    void inside_row(int level, std::int32_t domain, Row& row, int depth);
    void retrace(int level, std::int32_t begin, std::int32_t end, const Row& behind, Need& need,
                 std::vector<NodePods>& placed);
    void retrace_one(int level, std::int32_t domain, const Row& behind, Need& need,
                     std::vector<NodePods>& placed);
    void retrace_options(std::int32_t node, const Row& behind, Need& need,
                         std::vector<NodePods>& placed);

    const Network& network_;
    const Sums& slots_;
    const Sums& existing_;
    const Wish& wish_;
    const int held_;
    const CostLayout& layout_;
    const std::span<const std::int64_t> most_existing_;
    std::vector<Row> inner_;  // by depth
    Row other_;
};

}  // namespace hivecore::topology
