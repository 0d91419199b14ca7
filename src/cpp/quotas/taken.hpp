// What owners of outside quotas ask for, beside others, is taken off the totals while they are
// decided on together: as if they had been admitted first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "quotas/quota_tree.hpp"

namespace hivecore::quotas {

class QuotaTree::Taken {
  public:
    Taken(QuotaTree& tree, std::span<const Ask> asks) : tree_(tree) {
        const auto is_outside = [&](const Ask& ask) {
            return tree.is_outside(tree.owner(ask.owner).quota);
        };
        if (asks.size() < 2 || std::ranges::all_of(asks, is_outside)) {
            return;
        }
        for (const auto& ask : asks) {
            if (is_outside(ask)) {
                take(ask);
            }
        }
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken() {
        for (const auto root : roots_) {
            for (int d = 0; d < tree_.stride_; ++d) {
                set(root, d, 0);
            }
        }
    }

  private:
    void take(const Ask& ask) {
        const auto quota = tree_.owner(ask.owner).quota;
        const auto root = tree_.root_of(quota);
        roots_.push_back(root);
        for (int d = 0; d < tree_.stride_; ++d) {
            if (tree_.manages(quota, d)) {
                const auto more = tree_.amounts_of(ask.owner)[d] * ask.members;
                set(root, d, std::min(tree_.roots_[root].taken[d], kMost - more) + more);
            }
        }
    }

    void set(std::int32_t root, int dimension, std::int64_t amount) {
        auto& taken = tree_.roots_[root].taken[dimension];
        if (taken != amount) {
            taken = amount;
            tree_.mark_minimums(-1 - root, dimension);
        }
    }

    QuotaTree& tree_;
    std::vector<std::int32_t> roots_;
};

}  // namespace hivecore::quotas
