// Which labels a request wants a device, or a group of virtual functions, to have.
//
// Labels are numbers of (key, value) pairs and of keys: what has a label has both numbers. So each
// operator of a label selector comes down to having one of some numbers, or none of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hivecore::devices {

using Labels = std::vector<std::int32_t>;  // ascending

struct LabelRule {
    Labels numbers;  // ascending
    bool is_negative = false;

    bool holds(const Labels& labels) const {
        const bool has_any = std::ranges::any_of(
            numbers, [&](auto number) { return std::ranges::binary_search(labels, number); });
        return has_any != is_negative;
    }
};

// All rules must hold; without any it matches everything.
using Selector = std::vector<LabelRule>;

inline bool matches(const Selector& selector, const Labels& labels) {
    return std::ranges::all_of(selector, [&](const auto& rule) { return rule.holds(labels); });
}

}  // namespace hivecore::devices
