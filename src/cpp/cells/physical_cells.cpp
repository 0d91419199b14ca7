#include "cells/physical_cells.hpp"

namespace hivecore::cells {

PhysicalCells::PhysicalCells(const Shape& shape, int node_level)
    : shape_(shape), node_level_(node_level), idle_total_(shape.size[0]) {
    std::uint64_t cells = 0;
    for (int level = 0; level < shape_.levels; ++level) {
        base_[level] = cells;
        cells += shape_.size[level];
    }
    cells_.resize(cells);
    states_.assign(cells, CellState::inside);
    holdings_.assign(shape_.size[0], Holding::none);
    nodes_.resize(shape_.size[node_level]);
    for (int level = 0; level <= node_level; ++level) {
        for (CellIndex index = 0; index < shape_.size[level]; ++index) {
            cells_[base_[level] + index].open = shape_.leaves[level];
        }
    }
    for (int level = 0; level < shape_.levels; ++level) {
        const std::uint64_t keys = (std::uint64_t{shape_.leaves[level]} + 1) * shape_.size[level];
        clean_.emplace_back(keys);
        impaired_.emplace_back(keys);
    }
    for (CellIndex root = 0; root < shape_.size[shape_.top()]; ++root) {
        list(shape_.top(), root);
    }
    for (int level = node_level; level < shape_.levels; ++level) {
        const std::uint64_t leaves = shape_.leaves[level];
        const std::uint64_t pairs = ranks_nodes() ? (leaves + 1) * (leaves + 2) / 2 : 0;
        ranked_.emplace_back(level == node_level ? pairs : kNearness * (leaves + 1),
                             shape_.size[level]);
        held_.emplace_back(shape_.size[level], 0);
        for (CellIndex index = 0; index < shape_.size[level]; ++index) {
            file(level, index, shape_.leaves[level]);
        }
    }
    for (Node& node : nodes_) {
        node.idle = node.filed_idle = shape_.leaves[node_level];
    }
}

// --- free lists and safety

std::array<std::int64_t, kMaxLevels> PhysicalCells::surplus() const {
    std::array<std::int64_t, kMaxLevels> result{};
    std::int64_t above = 0;
    for (int level = shape_.levels; level-- > 0;) {
        const std::int64_t free = std::int64_t{listed_[level]} - owed_[level];
        above = level == shape_.top() ? free : above * shape_.fanout[level] + free;
        result[level] = above;
    }
    return result;
}

bool PhysicalCells::may_split(int level, int from) const {
    const auto spare = surplus();
    for (int above = level + 1; above <= from; ++above) {
        if (spare[above] < 1) {
            return false;
        }
    }
    return true;
}

int PhysicalCells::listed_level(int level, CellIndex index) const {
    while (state(level, index) == CellState::inside && level < shape_.top()) {
        index = shape_.parent(level, index);
        ++level;
    }
    return state(level, index) == CellState::listed ? level : -1;
}

void PhysicalCells::list(int level, CellIndex index) {
    states_[base_[level] + index] = CellState::listed;
    ++listed_[level];
    (cell(level, index).bad == 0 ? clean_ : impaired_)[level].insert(key(level, index));
}

void PhysicalCells::unlist(int level, CellIndex index, CellState state) {
    (cell(level, index).bad == 0 ? clean_ : impaired_)[level].erase(key(level, index));
    --listed_[level];
    states_[base_[level] + index] = state;
}

void PhysicalCells::bind_root(int level, CellIndex index, int from, std::int32_t pool,
                              CellIndex partner) {
    CellIndex upper = shape_.ancestor(level, index, from);
    unlist(from, upper, CellState::split);
    for (int l = from; l-- > level;) {
        const CellIndex begin = shape_.first_child(l + 1, upper);
        upper = shape_.ancestor(level, index, l);
        for (CellIndex child = begin; child < begin + shape_.fanout[l]; ++child) {
            if (child != upper) {
                list(l, child);
            }
        }
        states_[base_[l] + upper] = CellState::split;
    }
    states_[base_[level] + index] = CellState::root;
    if (level > node_level_) {
        rebound_.emplace_back(level, index);
    }
    Cell& root = cells_[base_[level] + index];
    root.pool = pool;
    root.partner = partner;
}

void PhysicalCells::unbind_root(int level, CellIndex index) {
    if (level > node_level_) {
        rebound_.emplace_back(level, index);
    }
    Cell& root = cells_[base_[level] + index];
    root.pool = -1;
    root.partner = kNoCell;
    for (; level < shape_.top(); ++level) {
        const CellIndex parent = shape_.parent(level, index);
        const CellIndex begin = shape_.first_child(level + 1, parent);
        const CellIndex end = begin + shape_.fanout[level];
        for (CellIndex child = begin; child < end; ++child) {
            if (child != index && state(level, child) != CellState::listed) {
                list(level, index);
                return;
            }
        }
        for (CellIndex child = begin; child < end; ++child) {
            if (child != index) {
                unlist(level, child, CellState::inside);
            }
        }
        states_[base_[level] + index] = CellState::inside;
        index = parent;
    }
    list(level, index);
}

void PhysicalCells::bind_below(int level, CellIndex index, std::int32_t pool, CellIndex partner) {
    states_[base_[level] + index] = CellState::bound;
    Cell& cell = cells_[base_[level] + index];
    cell.pool = pool;
    cell.partner = partner;
}

void PhysicalCells::unbind_below(int level, CellIndex index) {
    states_[base_[level] + index] = CellState::inside;
    Cell& cell = cells_[base_[level] + index];
    cell.pool = -1;
    cell.partner = kNoCell;
}

// --- leaves

// Adds to the counts of the leaf and its ancestors below `end_level`; `open` only up to the node.
void PhysicalCells::shift(CellIndex leaf, int end_level, int load, int bad, int open) {
    CellIndex index = leaf;
    for (int level = 0; level < end_level; ++level) {
        Cell& cell = cells_[base_[level] + index];
        const bool moves = (load != 0 || bad != 0) && state(level, index) == CellState::listed;
        if (moves) {
            unlist(level, index, CellState::inside);
        }
        cell.load += static_cast<CellIndex>(load);
        cell.bad += static_cast<CellIndex>(bad);
        if (level <= node_level_) {
            cell.open += static_cast<CellIndex>(open);
        }
        if (moves) {
            list(level, index);
        }
        index /= shape_.fanout[level];
    }
}

void PhysicalCells::touch(CellIndex node) {
    if (!nodes_[node].stale) {
        stale_.push_back(node);
        nodes_[node].stale = true;
    }
}

void PhysicalCells::set_holding(CellIndex leaf, Holding holding) {
    const Holding before = holdings_[leaf];
    if (before == holding) {
        return;
    }
    holdings_[leaf] = holding;
    const auto change = [&](Holding which) { return (holding == which) - (before == which); };
    const bool good = healthy(leaf);
    const int load = change(Holding::opportunistic);
    const int held = change(Holding::virtually);
    const int idle = good ? change(Holding::none) : 0;
    shift(leaf, load != 0 ? shape_.levels : node_level_ + 1, load, 0, good ? -held : 0);
    const CellIndex index = shape_.ancestor(0, leaf, node_level_);
    nodes_[index].held += static_cast<CellIndex>(held);
    nodes_[index].idle += static_cast<CellIndex>(idle);
    idle_total_ += static_cast<CellIndex>(idle);
    touch(index);
}

void PhysicalCells::set_healthy(CellIndex leaf, bool good) {
    if (healthy(leaf) == good) {
        return;
    }
    const int sign = good ? 1 : -1;
    shift(leaf, shape_.levels, 0, -sign, holdings_[leaf] != Holding::virtually ? sign : 0);
    const CellIndex index = shape_.ancestor(0, leaf, node_level_);
    if (holdings_[leaf] == Holding::none) {
        nodes_[index].idle += static_cast<CellIndex>(sign);
        idle_total_ += static_cast<CellIndex>(sign);
    }
    touch(index);
}

// --- opportunistic work

// The same of the root that the cell is or lies in, as it is ranked; 0: there is none.
CellIndex PhysicalCells::taken_around(int level, CellIndex index) const {
    while (state(level, index) != CellState::root) {
        if (level == shape_.top()) {
            return 0;
        }
        index = shape_.parent(level, index);
        ++level;
    }
    return taken(level, ranked(level).available(mirrored(level, index)));
}

CellIndex PhysicalCells::row_of(int level, CellIndex index) const {
    const CellIndex leaves = shape_.leaves[level];
    const CellIndex rest = leaves - cell(level, index).load;
    if (level > node_level_) {
        return nearness(level, index) * (leaves + 1) + rest;
    }
    return ranks_nodes() ? rest * (rest + 1) / 2 + held(level, index) : 0;
}

// A cell above node level is never filed as short.
void PhysicalCells::file(int level, CellIndex index, CellIndex available) {
    const CellIndex full = level == node_level_
                               ? shape_.leaves[level] - cell(level, index).load - held(level, index)
                               : 0;
    ranked_[static_cast<std::size_t>(level - node_level_)].file(
        mirrored(level, index), row_of(level, index), available, full);
}

void PhysicalCells::refile() {
    for (const CellIndex index : stale_) {
        Node& node = nodes_[index];
        const CellIndex idle = node.idle - node.filed_idle;
        const CellIndex held = node.held - node.filed_held;
        node.filed_idle = node.idle;
        node.filed_held = node.held;
        node.stale = false;
        CellIndex upper = index;
        for (int level = node_level_;; ++level) {
            held_[static_cast<std::size_t>(level - node_level_)][upper] += held;
            const CellIndex before = ranked(level).available(mirrored(level, upper));
            file(level, upper, before + idle);
            if (level > node_level_ && state(level, upper) == CellState::root &&
                taken(level, before) != taken(level, before + idle)) {
                rebound_.emplace_back(level, upper);
            }
            if (level == shape_.top()) {
                break;
            }
            upper = shape_.parent(level, upper);
        }
    }
    stale_.clear();
    for (const auto& [level, root] : rebound_) {
        refile_within(level, root, root + 1);
    }
    rebound_.clear();
}

void PhysicalCells::refile_within(int level, CellIndex begin, CellIndex end) {
    for (int below = node_level_ + 1; below <= level; ++below) {
        const CellIndex many = shape_.leaves[level] / shape_.leaves[below];
        for (CellIndex index = begin * many; index < end * many; ++index) {
            file(below, index, ranked(below).available(mirrored(below, index)));
        }
    }
}

std::uint64_t PhysicalCells::bytes() const {
    std::uint64_t total = cells_.size() * (sizeof(Cell) + sizeof(CellState)) + holdings_.size() +
                          nodes_.size() * sizeof(Node);
    for (int level = 0; level < shape_.levels; ++level) {
        total += clean_[level].bytes() + impaired_[level].bytes();
    }
    for (const RankedCells& ranked : ranked_) {
        total += ranked.bytes() + ranked.cells() * sizeof(CellIndex);
    }
    return total;
}

}  // namespace hivecore::cells
