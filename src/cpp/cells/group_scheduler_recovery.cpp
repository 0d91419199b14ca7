// Virtual leaves for a group that runs already: which of its tenant's cells its leaves are in.
//
// A leaf in a root of its pool joins it. Otherwise the free cell around it becomes a new root, for
// which the least important groups may have to be downgraded. If a leaf finds none, the group is
// not accounted for at all: it goes on opportunistically.
#include <algorithm>

#include "cells/group_scheduler_groups.hpp"

namespace hivecore::cells {

Handle Groups::recover(const Newcomer& who, std::vector<Placed> leaves,
                       std::vector<Handle>& displaced) {
    Newcomer entered = who;
    entered.by_right = who.priority >= 0 && book_recovered(who, leaves, displaced);
    if (!entered.by_right) {
        for (Placed& placed : leaves) {
            placed.held = {-1, 0};
        }
        book_all(entered, leaves);
    }
    const Handle handle = enter(entered, leaves);
    succeed();
    return handle;
}

bool Groups::book_recovered(const Newcomer& who, std::vector<Placed>& leaves,
                            std::vector<Handle>& displaced) {
    if (std::any_of(leaves.begin(), leaves.end(),
                    [](const Placed& placed) { return placed.held.pool < 0; })) {
        return false;
    }
    std::size_t booked = 0;
    for (; booked < leaves.size(); ++booked) {
        Placed& placed = leaves[booked];
        const std::int32_t pool = placed.held.pool;
        const CellTree& home = pools_.tree(pools_.pool(pool).chain);
        const CellIndex leaf = local(pools_.pool(pool).chain, placed.leaf);
        const int level = pools_.pool(pool).level;
        const CellIndex cell = home.shape().ancestor(0, leaf, level);
        CellIndex root = kNoCell;
        if (home.state(level, cell) == CellState::root && home.cell(level, cell).pool == pool) {
            root = home.cell(level, cell).partner;
        } else {
            root = recovered_root(who, pool, cell, displaced);
        }
        if (root == kNoCell) {
            break;
        }
        placed.held = pools_.virtual_leaf(pool, level, root, leaf);
        if (!pools_.book(placed.held, leaf)) {
            break;
        }
    }
    if (booked == leaves.size()) {
        for (const Placed& placed : leaves) {
            note(placed.held.pool, who.priority, 1);
        }
        return true;
    }
    while (booked-- > 0) {
        const std::int32_t chain = chain_of(leaves[booked].leaf);
        pools_.drop(chain, local(chain, leaves[booked].leaf), Holding::nobody);
    }
    return false;
}

CellIndex Groups::recovered_root(const Newcomer& who, std::int32_t pool, CellIndex cell,
                                 std::vector<Handle>& displaced) {
    const Pools::Pool& owner = pools_.pool(pool);
    const CellTree& home = pools_.tree(owner.chain);
    if (home.listed_level(owner.level, cell) < 0) {
        return kNoCell;
    }
    if (owner.free_roots.empty()) {
        displace(who, pool, displaced);
    }
    const int from = home.listed_level(owner.level, cell);
    if (owner.free_roots.empty() || from < 0 || !home.may_split(owner.level, from)) {
        return kNoCell;
    }
    return static_cast<CellIndex>(owner.free_roots.first());
}

// Downgrades all groups in the root whose most important one is the least important.
void Groups::displace(const Newcomer& who, std::int32_t pool, std::vector<Handle>& displaced) {
    const Pools::Pool& owner = pools_.pool(pool);
    if (owner.pinned()) {
        return;
    }
    const CellIndex wide = pools_.shape(pool).leaves[owner.level];
    const std::uint32_t first = first_leaf(owner.chain);
    std::vector<Handle> holders;
    std::vector<Handle> least;
    std::int32_t lowest = who.priority;
    for (CellIndex root = 0; root < static_cast<CellIndex>(owner.count); ++root) {
        std::int32_t highest = -1;
        holders.clear();
        for (CellIndex leaf = root * wide; leaf < (root + 1) * wide; ++leaf) {
            const CellIndex partner = pools_.cell(pool, 0, leaf).partner;
            if (partner == kNoCell) {
                continue;
            }
            const Handle by = holder(first + partner);
            // Neither what this recovery has booked nor what preempts is displaced.
            if (by == kNoGroup || group(by).preempting || group(by).priority >= lowest) {
                highest = lowest;
                break;
            }
            highest = std::max(highest, group(by).priority);
            if (holders.empty() || holders.back() != by) {
                holders.push_back(by);
            }
        }
        if (highest < lowest) {
            lowest = highest;
            least.swap(holders);
        }
    }
    sort_by_sequence(least);
    for (const Handle handle : least) {
        drop_rights(handle);
        groups_[static_cast<std::size_t>(handle)].by_right = false;
        displaced.push_back(handle);
    }
}

}  // namespace hivecore::cells
