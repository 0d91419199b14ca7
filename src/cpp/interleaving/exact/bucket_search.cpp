#include "interleaving/exact/bucket_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interleaving/exact/branch_and_cut.hpp"
#include "interleaving/exact/precision.hpp"

namespace hivecore::interleaving {

BucketSearch::BucketSearch(const GroupKinds& kinds, const std::vector<int>& jobs,
                           const std::vector<int>& optional) {
    program_ = program_of(kinds, jobs, optional, upper_);
    int total = 0;
    int required = 0;
    for (std::size_t type = 0; type < jobs.size(); ++type) {
        total += jobs[type];
        required += jobs[type] - optional[type];
    }
    int largest = 1;
    int smallest = total;
    for (const int kind : program_.kind) {
        if (kind != BucketProgram::kNoGroup) {
            largest = std::max(largest, kinds.size(kind));
            smallest = std::min(smallest, kinds.size(kind));
        }
    }
    fewest_ = (required + largest - 1) / largest;
    most_ = smallest > 0 ? total / smallest : 0;
}

BucketProgram BucketSearch::program_for(int groups) const {
    BucketProgram program = program_;
    program.right.back() = groups;
    return program;
}

const BucketSearch::Root& BucketSearch::root(int groups) {
    const auto known = roots_.find(groups);
    if (known != roots_.end()) {
        return known->second;
    }
    const BucketProgram program = program_for(groups);
    BoxedSimplex simplex(program.matrix, program.right, std::vector<double>(upper_.size(), 0.0),
                         upper_);
    const LpStatus status = simplex.solve();
    return roots_.emplace(groups, Root{status, std::move(simplex)}).first->second;
}

Relaxed BucketSearch::relax(int groups) {
    const auto& [status, simplex] = root(groups);
    if (status == LpStatus::kInfeasible) {
        return {false, {}, {}};
    }
    const BucketProgram program = program_for(groups);
    const double bound = simplex.bound();
    const double slope = simplex.price(program.matrix->rows - 1);
    Relaxed relaxed{true, {bound - slope * groups, slope}, {}};
    if (status != LpStatus::kOptimal || program.most_fractional(simplex) >= 0) {
        return relaxed;
    }
    if (auto partition = program.rounded(simplex)) {
        partition->bound = std::max(partition->value, bound);
        const double most = std::max(std::fabs(partition->value), std::fabs(partition->bound));
        if (partition->bound - partition->value <= kPrecision * most) {
            relaxed.best = std::move(partition);
        }
    }
    return relaxed;
}

Partition BucketSearch::solve(int groups, int nodes) {
    const auto& [status, simplex] = root(groups);
    if (status == LpStatus::kInfeasible) {
        Partition none;
        none.bound = none.value;
        return none;
    }
    return branch_and_cut(program_for(groups), simplex, status, nodes);
}

}  // namespace hivecore::interleaving
