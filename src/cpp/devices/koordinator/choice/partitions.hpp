// Whole GPUs as one row of the table of partitions.
//
// Of the first tier with a row of which all GPUs are visible, healthy and not in use even in part,
// the row is taken that leaves most: every row of the first tiers, as large as the request or
// larger, that is still unused counts by its size and score. What the GPUs have is not looked at.
#pragma once

#include "devices/koordinator/node.hpp"

namespace hivecore::devices::koordinator {

template <int W>
bool is_free_row(const TypeView<W>& view, const AskedRow& row) {
    return row.members.template as<W>().is_within(view.healthy & ~view.in_use);
}

template <int W>
std::int64_t left_after(const Asked& asked, const TypeView<W>& view, const AskedRow& taken) {
    const auto in_use = view.in_use | taken.members.template as<W>();
    std::int64_t sum = 0;
    for (const auto& row : asked.residual) {
        sum += (row.members.template as<W>() & in_use).any() ? 0 : row.worth;
    }
    return sum;
}

template <int W>
Verdict partition_of(const Node<W>& node, int i, Pick<W>& pick) {
    if (!node.asked.has_table) {
        return {Code::kNoTable, kGpu};
    }
    if (!node.asked.has_size) {
        return {Code::kNoPartitionSize, kGpu};
    }
    const AskedRow* best = nullptr;
    std::int64_t most = 0;
    for (const auto& row : node.asked.rows) {
        if (best != nullptr && row.tier != best->tier) {
            break;
        }
        if (is_free_row(node.views[i], row)) {
            const auto left = left_after(node.asked, node.views[i], row);
            if (best == nullptr || left > most) {
                best = &row;
                most = left;
            }
        }
    }
    if (best == nullptr) {
        return {Code::kNoFreePartition, kGpu};
    }
    pick = {best->members.template as<W>(), false};
    return {};
}

}  // namespace hivecore::devices::koordinator
