#include "cells/planning/room.hpp"

#include <algorithm>

namespace hivecore::cells {

Room::Room(const Groups& groups, const UnitChoice& unit_choice, const Task& task) {
    for (const Demand& pod : task.pods) {  // ascending
        if (sizes_.empty() || sizes_.back().first != pod.leaves) {
            sizes_.emplace_back(pod.leaves, &task.pods.back() - &pod + 1);
        }
    }
    const PhysicalCells& physical = groups.virtual_cells().physical(task.chain);
    const Shape& shape = physical.shape();
    const std::uint32_t first = groups.first_leaf(task.chain);
    const CellIndex wide = shape.leaves[physical.node_level()];
    free_.resize(shape.size[physical.node_level()]);
    const auto is_bound_to_others = [&](CellIndex node) {
        int level = physical.node_level();
        CellIndex cell = node;
        while (physical.state(level, cell) != CellState::root) {
            if (level == shape.top()) {
                return false;
            }
            cell = shape.parent(level++, cell);
        }
        return groups.virtual_cells().pool(physical.cell(level, cell).pool).instance !=
               task.instance;
    };
    bool others = false;
    for (CellIndex leaf = 0; leaf < shape.size[0]; ++leaf) {
        const CellIndex node = leaf / wide;
        others = leaf % wide == 0 ? is_bound_to_others(node) : others;
        if (others || unit_choice.leaf_class(leaf) == LeafChoice::kTaken) {
            continue;
        }
        const CellIndex counts = task.allows(node) ? 1 : 0;
        const Handle user = groups.user(first + leaf);
        if (user == kNoGroup) {
            free_[node] += counts;
            continue;
        }
        auto& nodes = more_[user];
        if (nodes.empty() || nodes.back().first != node) {
            nodes.emplace_back(node, 0);
        }
        nodes.back().second += counts;
    }
    for (const auto& [size, pods] : sizes_) {
        std::int64_t fit = 0;
        for (const CellIndex leaves : free_) {
            fit += leaves / size;
        }
        pods_.push_back(fit);
    }
}

std::vector<Handle> Room::groups() const {
    std::vector<Handle> handles;
    for (const auto& [handle, nodes] : more_) {
        handles.push_back(handle);
    }
    return handles;
}

bool Room::may_suffice(std::span<const Handle> victims) const {
    std::map<CellIndex, CellIndex> gained;
    for (const Handle victim : victims) {
        if (const auto entry = more_.find(victim); entry != more_.end()) {
            for (const auto& [node, leaves] : entry->second) {
                gained[node] += leaves;
            }
        }
    }
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
        const auto& [size, pods] = sizes_[i];
        std::int64_t fit = pods_[i];
        for (const auto& [node, leaves] : gained) {
            fit += (free_[node] + leaves) / size - free_[node] / size;
        }
        if (fit < pods) {
            return false;
        }
    }
    return true;
}

}  // namespace hivecore::cells
