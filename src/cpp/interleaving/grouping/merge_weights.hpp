// What merges of any two nodes weigh, computed when it is asked for: for buckets too large for a
// matrix of weights.
//
// Jobs wait for each other at barriers: the time of a round is bounded by all orders of both nodes'
// jobs, as the exact search would find it but for ties and rounding. Orders of the jobs of a node
// alone are prepared: of each slot the longest stage, so that two nodes cost no more than two jobs
// in each order that they can have together. Groups of too many orders are searched pair by pair,
// which takes long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interleaving/grouping/group_values.hpp"
#include "interleaving/grouping/jobs.hpp"
#include "interleaving/grouping/pair_times.hpp"
#include "matching/matching.hpp"

namespace hivecore::interleaving {

class MergeWeights : public matching::PairWeights {
  public:
    MergeWeights(const Jobs& jobs, const Terms& terms, const Profiles& profiles,
                 const GroupValues& values, const std::vector<Node>& nodes);

    matching::Node size() const override { return static_cast<matching::Node>(order_.size()); }
    void bound(matching::Node u, matching::Node first, matching::Node last,
               double* bounds) const override;
    void weigh(std::span<matching::WeighedPair> pairs) const override;

    // Of each node its mate, by what solve_priced() answered.
    std::vector<std::int64_t> mates(const std::vector<std::int64_t>& mate) const;

  private:
    // The nodes of so many jobs.
    struct OfSize {
        std::vector<matching::Node> places;  // ascending
        std::vector<matching::Node> before;  // per vertex, and at the end, how many are before it
        std::vector<double> worth;           // of each place what a round brings
        std::vector<double> cost;            // and the node by itself, in units of weights
        std::vector<unsigned> slots;         // per order of its jobs, the slots that they begin in
        std::vector<double> stages;          // per order, slot and node the longest stage
        std::size_t room = 0;                // for the nodes, with spare ones
    };

    void prepare(int size);
    template <class Visit>
    void for_orders(const Node& node, Visit visit) const;
    void bound_by_orders(matching::Node u, int size, std::size_t first, std::size_t last,
                         double* times) const;
    void search(matching::Node u, int size, std::size_t first, std::size_t last,
                double* times) const;

    const Jobs& jobs_;
    const Terms& terms_;
    const Profiles& profiles_;
    const GroupValues& values_;
    const std::vector<Node>& nodes_;
    std::vector<matching::Node> order_;  // the nodes in the numbering of the matching
    std::vector<OfSize> of_size_;
};

}  // namespace hivecore::interleaving
