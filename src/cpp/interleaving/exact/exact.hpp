// The best groups of all, with a proof: every kind of group that the types of jobs allow is a
// column of an integer program (see cover.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "interleaving/exact/cover.hpp"
#include "interleaving/grouping/group_values.hpp"
#include "interleaving/grouping/grouping.hpp"
#include "interleaving/rounds/mixture.hpp"

namespace hivecore::interleaving {

struct ExactGrouping {
    Grouping groups;
    double value;  // sum over groups of GPUs times efficiency, or progress
    double bound;  // no grouping is worth more
};

// Caches what it computes, for calls on the same terms; answers do not depend on it.
class ExactGrouper {
  public:
    explicit ExactGrouper(const Terms& terms);

    // `optional`, per job: it may be in no group. Of interchangeable jobs the most urgent are in
    // groups, and in those whose rounds are shortest. Throws std::invalid_argument for more than
    // kMaxKinds kinds of groups in a bucket.
    ExactGrouping group(const Jobs& jobs, std::span<const std::uint8_t> optional,
                        std::int64_t capacity, int nodes);

    static constexpr std::size_t kMaxKinds = 50'000;

  private:
    class Call;

    std::vector<double> factors_;
    Terms terms_;
    std::map<std::vector<double>, Type> types_;  // by stages, solo time and memory
    std::unordered_map<Mixture, double, MixtureHash> times_;
    Cover cover_;
};

}  // namespace hivecore::interleaving
