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

// The times of rounds of mixtures merged two by two, searched many at once. The rows of a search
// stand in the order of types, so that the time depends on nothing else.
class TimesTogether {
  public:
    explicit TimesTogether(const Profiles& profiles) : profiles_(profiles) {}

    void add(const Mixture& a, const Mixture& b);
    std::size_t count() const { return starts_.size() - 1; }

    // Of what was added since the last time, with factors for interference or without.
    std::vector<double> search(const Jobs& jobs, const Terms& terms);
    std::vector<double> search_without_factors(const Jobs& jobs, const Terms& terms);

  private:
    const Profiles& profiles_;
    std::vector<std::int64_t> starts_{0};
    std::vector<Job> members_;
};

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
    std::vector<int> kind_;  // per node
    std::vector<Mixture> mixtures_;
    std::vector<int> sizes_;
    std::vector<double> time_;
};

}  // namespace hivecore::interleaving
