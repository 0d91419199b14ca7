// The times of rounds that any two of some nodes would have together, each found once for all nodes
// of one kind: that have the same types in the same order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "interleaving/grouping/jobs.hpp"
#include "interleaving/grouping/profiles.hpp"
#include "interleaving/rounds/mixture.hpp"
#include "interleaving/rounds/node.hpp"

namespace hivecore::interleaving {

class PairTimes {
  public:
    PairTimes(const Jobs& jobs, const Terms& terms, const Profiles& profiles,
              const std::vector<Node>& nodes);

    // Of nodes that have at most terms.max_group jobs.
    double operator()(std::size_t u, std::size_t v) const {
        return time_[place(kind_[u], kind_[v])];
    }

    std::size_t kinds() const { return mixtures_.size(); }
    std::size_t kinds(std::size_t u, std::size_t v) const { return place(kind_[u], kind_[v]); }

  private:
    std::size_t place(int a, int b) const {
        return static_cast<std::size_t>(a) * mixtures_.size() + b;
    }
    void add(int a, int b, const Profiles& profiles);
    void search(const Jobs& jobs, const Terms& terms);

    std::vector<int> kind_;  // per node
    std::vector<Mixture> mixtures_;
    std::vector<int> sizes_;
    std::vector<double> time_;

    // What is to be searched next.
    std::vector<std::array<int, 2>> pairs_;
    std::vector<std::int64_t> starts_{0};
    std::vector<Job> members_;
};

}  // namespace hivecore::interleaving
