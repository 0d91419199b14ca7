#include "cells/virtual_clusters.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace hivecore::cells {

namespace {

// Occupies cells of a request that is not yet sure of all of its cells.
constexpr std::int32_t kNobody = std::numeric_limits<std::int32_t>::max();

}  // namespace

VirtualClusters::VirtualClusters(std::span<const Shape> chains, int tenants,
                                 std::span<const Assignment> assignments)
    : pools_by_tenant_(tenants * chains.size()) {
    chains_.reserve(chains.size());
    for (const Shape& shape : chains) {
        chains_.emplace_back(shape);
    }
    std::vector<Assignment> ordered(assignments.begin(), assignments.end());
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const Assignment& a, const Assignment& b) { return a.level < b.level; });
    for (const Assignment& owned : ordered) {
        const Shape& shape = chains_[owned.chain].shape();
        pools_by_tenant_[owned.tenant * chains_.size() + owned.chain].push_back(
            static_cast<std::int32_t>(pools_.size()));
        Pool pool{owned.chain,
                  owned.level,
                  Buddy({shape.fanout, static_cast<std::size_t>(owned.level)}, owned.count),
                  {}};
        for (int level = 0; level <= owned.level; ++level) {
            pool.bound_to.emplace_back(pool.buddy.shape().size[level], kUnbound);
        }
        pools_.push_back(std::move(pool));
        chains_[owned.chain].owe(owned.level, owned.count);
    }
}

int VirtualClusters::shortfall(const Shape& chain, std::span<const std::int64_t> owned,
                               std::int64_t& missing) {
    std::int64_t spare = 0;
    for (int level = chain.levels; level-- > 0;) {
        spare =
            (level == chain.top() ? chain.size[level] : spare * chain.fanout[level]) - owned[level];
        if (spare < 0) {
            missing = -spare;
            return level;
        }
    }
    return -1;
}

VirtualClusters::Pool& VirtualClusters::pool_of(const Allocation& allocation) {
    for (const std::int32_t index : pools_of(allocation.tenant, allocation.chain)) {
        if (pools_[index].level == allocation.owned_level) {
            return pools_[index];
        }
    }
    return pools_.front();  // not reached: an allocation's pool never goes away
}

std::int64_t VirtualClusters::listed_virtual(int tenant, int chain, int level) const {
    std::int64_t total = 0;
    for (const std::int32_t index : pools_of(tenant, chain)) {
        if (pools_[index].level >= level) {
            total += pools_[index].buddy.listed_count(level);
        }
    }
    return total;
}

std::int64_t VirtualClusters::capacity(int tenant, int chain, int level) const {
    const Shape& shape = chains_[chain].shape();
    std::int64_t total = 0;
    for (int source = level; source < shape.levels; ++source) {
        total +=
            listed_virtual(tenant, chain, source) * (shape.leaves[source] / shape.leaves[level]);
    }
    return total;
}

// --- binding

// Serves the allocation from the free virtual cell `virtual_source`, if hardware allows.
bool VirtualClusters::bind_below(Pool& pool, int source, CellIndex virtual_source,
                                 Allocation& allocation) {
    Chain& chain = chains_[allocation.chain];
    const Shape& shape = pool.buddy.shape();
    const int level = allocation.level;
    std::int64_t cell = kUnbound;
    int at = source;
    if (source == pool.level) {
        cell = chain.bind_root(source, level);
    } else {
        at = source + 1;
        const CellIndex parent = shape.parent(source, virtual_source);
        cell = chain.bind_child(at, static_cast<CellIndex>(pool.bound_to[at][parent]), level);
        --at;
    }
    if (cell < 0) {
        return false;
    }
    const CellIndex virtual_cell = pool.buddy.allocate_from(source, virtual_source, level);
    for (;; --at) {
        pool.bound_to[at][shape.ancestor(level, virtual_cell, at)] =
            static_cast<std::int32_t>(cell);
        if (at == level) {
            break;
        }
        cell = chain.bind_child(at, static_cast<CellIndex>(cell), level);
    }
    allocation.owned_level = pool.level;
    allocation.virtual_cell = virtual_cell;
    allocation.cell = static_cast<CellIndex>(cell);
    return true;
}

// The first free virtual cell, from the lowest level, pool and index, that hardware can back.
// While all hardware is healthy that is the first one tried. Siblings are alike: one is tried.
bool VirtualClusters::bind(Allocation& allocation) {
    const int levels = chains_[allocation.chain].shape().levels;
    for (int source = allocation.level; source < levels; ++source) {
        for (const std::int32_t index : pools_of(allocation.tenant, allocation.chain)) {
            Pool& pool = pools_[index];
            if (pool.level < source || pool.buddy.listed_count(source) == 0) {
                continue;
            }
            const IndexSet& listed = pool.buddy.listed(source);
            const Shape& shape = pool.buddy.shape();
            for (std::uint64_t candidate = listed.first(); candidate != IndexSet::kNone;) {
                const auto virtual_source = static_cast<CellIndex>(candidate);
                if (bind_below(pool, source, virtual_source, allocation)) {
                    return true;
                }
                if (source == pool.level) {
                    break;
                }
                const std::uint64_t next_parent = shape.parent(source, virtual_source) + 1ull;
                candidate = listed.first_from(next_parent * shape.fanout[source]);
            }
        }
    }
    return false;
}

void VirtualClusters::unbind(const Allocation& allocation) {
    Pool& pool = pool_of(allocation);
    Chain& chain = chains_[allocation.chain];
    const Shape& shape = pool.buddy.shape();
    const int merged = pool.buddy.release(allocation.level, allocation.virtual_cell);
    for (int level = allocation.level; level <= merged; ++level) {
        const CellIndex virtual_cell =
            shape.ancestor(allocation.level, allocation.virtual_cell, level);
        const auto cell = static_cast<CellIndex>(pool.bound_to[level][virtual_cell]);
        pool.bound_to[level][virtual_cell] = kUnbound;
        if (level == pool.level) {
            chain.unbind_root(level, cell);
        } else {
            chain.unbind_child(level, cell);
        }
    }
}

bool VirtualClusters::bind_all(std::vector<Allocation>& batch) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
        if (!bind(batch[i])) {
            while (i-- > 0) {
                unbind(batch[i]);
            }
            return false;
        }
    }
    return true;
}

// --- handles

void VirtualClusters::reserve_slots(std::size_t count) {
    const std::size_t needed = slots_.size() + count;
    for (std::size_t capacity = std::min(slots_.capacity(), free_slots_.capacity());
         capacity < needed;) {
        capacity = std::max(needed, 2 * capacity);
        slots_.reserve(capacity);
        free_slots_.reserve(capacity);
    }
}

std::int64_t VirtualClusters::store(const Allocation& allocation) {
    std::int32_t slot;
    if (free_slots_.empty()) {
        slot = static_cast<std::int32_t>(slots_.size());
        slots_.emplace_back();
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
    }
    const std::int32_t generation = slots_[slot].generation;
    slots_[slot] = allocation;
    slots_[slot].live = true;
    slots_[slot].generation = generation;
    return handle_of(slot);
}

void VirtualClusters::drop(std::int32_t slot) {
    slots_[slot].live = false;
    if (slots_[slot].generation != kLastGeneration) {
        ++slots_[slot].generation;
        free_slots_.push_back(slot);  // never beyond what reserve_slots has made room for
    }
}

const Allocation* VirtualClusters::find(std::int64_t handle) const {
    const std::int64_t slot = handle & 0xffffffff;
    if (handle < 0 || slot >= static_cast<std::int64_t>(slots_.size()) || !slots_[slot].live ||
        slots_[slot].generation != handle >> 32) {
        return nullptr;
    }
    return &slots_[slot];
}

// --- requests

Outcome VirtualClusters::allocate(int tenant, int chain, int level, std::int64_t count,
                                  std::vector<std::int64_t>& handles,
                                  std::vector<Preemption>& preempted) {
    if (capacity(tenant, chain, level) < count) {
        return Outcome::quota_exceeded;
    }
    std::vector<Allocation> batch(static_cast<std::size_t>(count),
                                  Allocation::of(tenant, chain, level));
    if (!bind_all(batch)) {
        return Outcome::no_healthy_cell;
    }
    try {
        std::vector<std::int32_t> users;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            users.clear();
            chains_[chain].append_overlapping(level, batch[i].cell, users);
            for (const std::int32_t user : users) {
                preempted.push_back({handle_of(user - 1), static_cast<std::int64_t>(i)});
            }
        }
        handles.reserve(batch.size());
        reserve_slots(batch.size());
    } catch (...) {
        for (std::size_t i = batch.size(); i-- > 0;) {
            unbind(batch[i]);
        }
        throw;
    }
    std::size_t gone = 0;
    for (const Preemption& victim : preempted) {
        const std::int32_t slot = user_of(victim.handle) - 1;
        if (slots_[slot].live) {  // else it was in the way of an earlier cell, too
            chains_[chain].vacate(slots_[slot].level, slots_[slot].cell, true);
            drop(slot);
            preempted[gone++] = victim;
        }
    }
    preempted.resize(gone);
    for (const Allocation& allocation : batch) {
        const std::int64_t handle = store(allocation);
        chains_[chain].occupy(level, allocation.cell, user_of(handle), false);
        handles.push_back(handle);
    }
    return Outcome::ok;
}

Outcome VirtualClusters::would_allocate(int tenant, int chain, int level, std::int64_t count) {
    if (capacity(tenant, chain, level) < count) {
        return Outcome::quota_exceeded;
    }
    if (chains_[chain].all_healthy()) {
        return Outcome::ok;
    }
    std::vector<Allocation> batch(static_cast<std::size_t>(count),
                                  Allocation::of(tenant, chain, level));
    if (!bind_all(batch)) {
        return Outcome::no_healthy_cell;
    }
    for (std::size_t i = batch.size(); i-- > 0;) {
        unbind(batch[i]);
    }
    return Outcome::ok;
}

Outcome VirtualClusters::allocate_opportunistic(int tenant, int chain, int level,
                                                std::int64_t count,
                                                std::vector<std::int64_t>& handles) {
    Allocation request = Allocation::of(tenant, chain, level);
    Chain& shared = chains_[chain];
    if (count > shared.shape().size[level]) {
        return Outcome::no_idle_cell;
    }
    handles.reserve(static_cast<std::size_t>(count));
    reserve_slots(static_cast<std::size_t>(count));
    std::vector<CellIndex> cells;
    cells.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t cell = shared.find_idle(level);
        if (cell < 0) {
            for (const CellIndex taken : cells) {
                shared.vacate(level, taken, true);
            }
            return Outcome::no_idle_cell;
        }
        cells.push_back(static_cast<CellIndex>(cell));
        shared.occupy(level, cells.back(), kNobody, true);
    }
    for (const CellIndex cell : cells) {
        request.cell = cell;
        handles.push_back(store(request));
        shared.rename_user(level, cell, user_of(handles.back()));
    }
    return Outcome::ok;
}

std::int64_t VirtualClusters::release_many(std::span<const std::int64_t> handles) {
    reserve_slots(0);
    for (std::size_t i = 0; i < handles.size(); ++i) {
        if (find(handles[i]) == nullptr) {
            for (std::size_t done = 0; done < i; ++done) {
                slots_[handles[done] & 0xffffffff].live = true;
            }
            return static_cast<std::int64_t>(i);
        }
        slots_[handles[i] & 0xffffffff].live = false;
    }
    for (const std::int64_t handle : handles) {
        const auto slot = static_cast<std::int32_t>(handle & 0xffffffff);
        const Allocation allocation = slots_[slot];
        chains_[allocation.chain].vacate(allocation.level, allocation.cell,
                                         allocation.opportunistic());
        if (!allocation.opportunistic()) {
            unbind(allocation);
        }
        drop(slot);
    }
    return -1;
}

// --- saved state

// Binds the very cells of a saved guaranteed allocation.
bool VirtualClusters::bind_at(const Allocation& allocation) {
    const auto pools = pools_of(allocation.tenant, allocation.chain);
    const auto found = std::find_if(pools.begin(), pools.end(), [&](std::int32_t index) {
        return pools_[index].level == allocation.owned_level;
    });
    if (found == pools.end()) {
        return false;
    }
    Pool& pool = pools_[*found];
    Chain& chain = chains_[allocation.chain];
    const Shape& shape = pool.buddy.shape();
    if (allocation.level > pool.level || allocation.virtual_cell >= shape.size[allocation.level] ||
        !pool.buddy.allocate_at(allocation.level, allocation.virtual_cell)) {
        return false;
    }
    for (int level = pool.level; level >= allocation.level; --level) {
        std::int32_t& bound =
            pool.bound_to[level][shape.ancestor(allocation.level, allocation.virtual_cell, level)];
        const CellIndex cell = chain.shape().ancestor(allocation.level, allocation.cell, level);
        if (bound == static_cast<std::int32_t>(cell)) {
            continue;
        }
        const bool done =
            bound == kUnbound && (level == pool.level ? chain.bind_root_at(level, cell)
                                                      : chain.bind_child_at(level, cell));
        if (!done) {
            return false;
        }
        bound = static_cast<std::int32_t>(cell);
    }
    return true;
}

bool VirtualClusters::restore(std::span<const Allocation> slots,
                              std::span<const std::int32_t> free_slots) {
    slots_.assign(slots.begin(), slots.end());
    free_slots_.assign(free_slots.begin(), free_slots.end());
    std::vector<bool> seen(slots_.size());
    for (const std::int32_t slot : free_slots_) {
        if (slot < 0 || slot >= static_cast<std::int32_t>(slots_.size()) || seen[slot] ||
            slots_[slot].live) {
            return false;
        }
        seen[slot] = true;
    }
    // Guaranteed allocations first: an opportunistic one uses a cell that they left idle.
    for (const bool opportunistic : {false, true}) {
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            const Allocation& saved = slots_[i];
            if (!saved.live || saved.opportunistic() != opportunistic) {
                continue;
            }
            Chain& chain = chains_[saved.chain];
            if (saved.cell >= chain.shape().size[saved.level] ||
                !(opportunistic ? chain.is_idle(saved.level, saved.cell) : bind_at(saved))) {
                return false;
            }
            chain.occupy(saved.level, saved.cell, static_cast<std::int32_t>(i) + 1, opportunistic);
            seen[i] = true;
        }
    }
    for (const Chain& chain : chains_) {
        const auto surplus = chain.surplus();
        if (*std::min_element(surplus.begin(), surplus.begin() + chain.shape().levels) < 0) {
            return false;
        }
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (!seen[i] && (slots_[i].live || slots_[i].generation != kLastGeneration)) {
            return false;
        }
    }
    reserve_slots(0);
    return true;
}

// --- audit

std::string VirtualClusters::audit_pool(const Pool& pool) const {
    std::string fault = pool.buddy.audit();
    if (!fault.empty()) {
        return "in a tenant's pool, " + fault;
    }
    const Shape& shape = pool.buddy.shape();
    for (int level = 0; level <= pool.level; ++level) {
        for (CellIndex cell = 0; cell < shape.size[level]; ++cell) {
            const std::int32_t bound = pool.bound_to[level][cell];
            // Inside an allocated virtual cell nothing is bound; outside, what is in use is.
            bool inside = false;
            for (int above = level + 1; above <= pool.level; ++above) {
                inside =
                    inside || pool.buddy.is_allocated(above, shape.ancestor(level, cell, above));
            }
            const bool in_use = !inside && !pool.buddy.is_free(level, cell);
            if ((bound != kUnbound) != in_use) {
                return "a virtual cell is bound, but not in use, or the reverse";
            }
            if (in_use && level < pool.level &&
                static_cast<std::int32_t>(
                    chains_[pool.chain].shape().parent(level, static_cast<CellIndex>(bound))) !=
                    pool.bound_to[level + 1][shape.parent(level, cell)]) {
                return "a virtual cell is bound outside its parent's cell";
            }
        }
    }
    return {};
}

// Every slot is live and occupies its cell, or waits once for its reuse, or is used up; and no
// cell is occupied by anybody else.
std::string VirtualClusters::audit_slots() const {
    std::vector<bool> waiting(slots_.size());
    for (const std::int32_t slot : free_slots_) {
        if (slots_[slot].live || waiting[slot]) {
            return "a free slot is live or listed twice";
        }
        waiting[slot] = true;
    }
    std::uint64_t live = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const Allocation& slot = slots_[i];
        if (slot.live) {
            ++live;
            if (chains_[slot.chain].user(slot.level, slot.cell) !=
                static_cast<std::int32_t>(i) + 1) {
                return "an allocation does not occupy its cell";
            }
        } else if (!waiting[i] && slot.generation != kLastGeneration) {
            return "a free slot is not listed";
        }
    }
    std::uint64_t occupied = 0;
    for (const Chain& chain : chains_) {
        occupied += chain.occupied_cells();
    }
    return occupied == live ? std::string() : "a cell is occupied by no allocation";
}

std::string VirtualClusters::audit() const {
    std::vector<std::array<CellIndex, kMaxLevels>> owed(chains_.size());
    for (const Pool& pool : pools_) {
        std::string fault = audit_pool(pool);
        if (!fault.empty()) {
            return fault;
        }
        owed[pool.chain][pool.level] += pool.buddy.listed_count(pool.level);
    }
    for (std::size_t i = 0; i < chains_.size(); ++i) {
        std::string fault = chains_[i].audit();
        if (!fault.empty()) {
            return fault;
        }
        for (int level = 0; level < chains_[i].shape().levels; ++level) {
            if (owed[i][level] != chains_[i].owed(level)) {
                return "the count of owned cells that are not bound is wrong";
            }
        }
    }
    return audit_slots();
}

std::uint64_t VirtualClusters::bytes() const {
    std::uint64_t total = sizeof(*this) + slots_.capacity() * sizeof(Allocation) +
                          free_slots_.capacity() * sizeof(std::int32_t);
    for (const Chain& chain : chains_) {
        total += chain.bytes();
    }
    for (const Pool& pool : pools_) {
        total += pool.buddy.bytes();
        for (const auto& row : pool.bound_to) {
            total += row.size() * sizeof(std::int32_t);
        }
    }
    return total;
}

}  // namespace hivecore::cells
