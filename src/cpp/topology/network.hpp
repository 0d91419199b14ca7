// The domains of a network, level by level: level 0 is all of it, the last level are the nodes.
// Those of a level are numbered so that the children of a domain follow each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hivecore::topology {

class Network {
  public:
    // `counts[l]`: how many children each domain of level l has.
    explicit Network(const std::vector<std::vector<std::int32_t>>& counts) {
        for (const auto& level : counts) {
            auto& begins = begins_.emplace_back(1, 0);
            auto& parents = parents_.emplace_back();
            for (const auto count : level) {
                parents.insert(parents.end(), count, static_cast<std::int32_t>(begins.size()) - 1);
                begins.push_back(begins.back() + count);
            }
            most_children_.push_back(*std::ranges::max_element(level));
        }
    }

    // The level of the nodes.
    int deepest() const { return static_cast<int>(begins_.size()); }
    std::int32_t size(int level) const {
        return level == 0 ? 1 : static_cast<std::int32_t>(parents_[level - 1].size());
    }
    // Of level + 1.
    std::int32_t first_child(int level, std::int32_t domain) const {
        return begins_[level][domain];
    }
    std::int32_t end_child(int level, std::int32_t domain) const {
        return begins_[level][domain + 1];
    }
    std::int32_t parent(int level, std::int32_t domain) const {
        return parents_[level - 1][domain];
    }
    // How many of `level` are below a domain, at most.
    std::int64_t most_below(int of, int level) const {
        std::int64_t most = 1;
        for (; of < level; ++of) {
            most = std::min<std::int64_t>(most * most_children_[of], size(level));
        }
        return most;
    }
    // Those of `level` below a domain, or itself.
    struct Range {
        std::int32_t begin, end;
    };
    Range below(int of, std::int32_t domain, int level) const {
        Range range{domain, domain + 1};
        for (; of < level; ++of) {
            range = {begins_[of][range.begin], begins_[of][range.end]};
        }
        return range;
    }

  private:
    std::vector<std::vector<std::int32_t>> begins_;
    std::vector<std::vector<std::int32_t>> parents_;  // of level + 1
    std::vector<std::int64_t> most_children_;
};

}  // namespace hivecore::topology
