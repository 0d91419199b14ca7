// Virtual clusters: tenants that own cells, on chains of physical cells (HiveD, OSDI'20).
//
// Two layers. A tenant's owned cells of one level of one chain form a *pool*, a Buddy allocator
// over virtual cells: what it serves, and which virtual cell, depends on this tenant alone, as in
// a private cluster. A virtual cell is bound to a physical one while a part of it is in use: the
// root of a pool to a free cell of the chain, everything below to a child of its parent's cell, so
// the topology inside an owned cell is kept. Which free cell or child is a free choice (see
// chain.hpp: the fewest opportunistic leaves), and opportunistic cells that overlap it give way.
//
// An allocation is named by a 64-bit handle: slot and generation; a stale handle is recognised, and
// a slot whose generations are used up is not used again.
// Several cells are allocated in two phases: all are bound, one after the other, which can be
// undone, and only then do opportunistic cells give way. What could run out of memory comes first.
//
// Tenants, chains and levels are numbered from 0, in range, checked by the caller.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cells/buddy.hpp"
#include "cells/chain.hpp"
#include "cells/shape.hpp"

namespace hivecore::cells {

struct Assignment {
    std::int32_t tenant;
    std::int32_t chain;
    std::int32_t level;
    CellIndex count;
};

enum class Outcome { ok, quota_exceeded, no_healthy_cell, no_idle_cell };

struct Allocation {
    bool live = false;
    std::int32_t generation = 0;
    std::int32_t tenant = 0;
    std::int32_t chain = 0;
    std::int32_t level = 0;
    CellIndex cell = 0;             // physical
    std::int32_t owned_level = -1;  // of the pool that serves it; -1: opportunistic
    CellIndex virtual_cell = 0;     // within the pool, at `level`

    static Allocation of(int tenant, int chain, int level) {
        Allocation request;
        request.tenant = tenant;
        request.chain = chain;
        request.level = level;
        return request;
    }
    bool opportunistic() const { return owned_level < 0; }
};

// An opportunistic cell that gave way to the `by`-th cell of the request.
struct Preemption {
    std::int64_t handle;
    std::int64_t by;
};

class VirtualClusters {
  public:
    // Assignments are feasible: no surplus of any chain is negative with them (see `shortfall`).
    VirtualClusters(std::span<const Shape> chains, int tenants,
                    std::span<const Assignment> assignments);

    // The highest level at which S is negative with these owned counts per level, and by how
    // much; -1 when they are feasible.
    static int shortfall(const Shape& chain, std::span<const std::int64_t> owned,
                         std::int64_t& missing);

    // `count` cells of one level, all or nothing. Handles are appended to `handles`, the
    // opportunistic cells that gave way to `preempted`.
    Outcome allocate(int tenant, int chain, int level, std::int64_t count,
                     std::vector<std::int64_t>& handles, std::vector<Preemption>& preempted);
    Outcome allocate_opportunistic(int tenant, int chain, int level, std::int64_t count,
                                   std::vector<std::int64_t>& handles);
    // What `allocate` would answer. Nothing changes; O(levels * pools) while all is healthy.
    Outcome would_allocate(int tenant, int chain, int level, std::int64_t count);

    const Allocation* find(std::int64_t handle) const;
    // Releases all, or nothing: answers the position of the first that is not live, or -1.
    std::int64_t release_many(std::span<const std::int64_t> handles);

    void set_health(int chain, CellIndex first_leaf, CellIndex end_leaf, bool healthy) {
        chains_[chain].set_health(first_leaf, end_leaf, healthy);
    }
    const Chain& chain(int index) const { return chains_[index]; }

    // How many more cells of this level the tenant's pools can serve at once.
    std::int64_t capacity(int tenant, int chain, int level) const;

    // Saved state: every slot, and the free slots in the order of their reuse.
    const std::vector<Allocation>& slots() const { return slots_; }
    const std::vector<std::int32_t>& free_slots() const { return free_slots_; }
    // To be called once, on a fresh object, which is of no use after an answer of false.
    // Values are within the ranges of tenants, chains and levels; all else is checked.
    bool restore(std::span<const Allocation> slots, std::span<const std::int32_t> free_slots);

    // Empty when all invariants hold, else what is wrong. O(cells).
    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    static constexpr std::int32_t kLastGeneration = 0x7fffffff;
    static constexpr std::int32_t kUnbound = -1;

    struct Pool {
        int chain;
        int level;
        Buddy buddy;
        std::vector<std::vector<std::int32_t>> bound_to;  // [level][virtual cell], or kUnbound
    };

    std::span<const std::int32_t> pools_of(int tenant, int chain) const {
        return pools_by_tenant_[tenant * chains_.size() + chain];
    }
    bool bind(Allocation& allocation);
    bool bind_below(Pool& pool, int source, CellIndex virtual_source, Allocation& allocation);
    bool bind_at(const Allocation& allocation);
    void unbind(const Allocation& allocation);
    bool bind_all(std::vector<Allocation>& batch);
    // Free virtual cells of one level, over the tenant's pools of the chain.
    std::int64_t listed_virtual(int tenant, int chain, int level) const;
    void reserve_slots(std::size_t count);
    std::int64_t store(const Allocation& allocation);
    void drop(std::int32_t slot);
    static std::int32_t user_of(std::int64_t handle) {
        return static_cast<std::int32_t>(handle & 0xffffffff) + 1;
    }
    std::string audit_pool(const Pool& pool) const;
    std::string audit_slots() const;
    std::int64_t handle_of(std::int32_t slot) const {
        return static_cast<std::int64_t>(slots_[slot].generation) << 32 | slot;
    }
    Pool& pool_of(const Allocation& allocation);

    std::vector<Chain> chains_;
    std::vector<Pool> pools_;
    std::vector<std::vector<std::int32_t>> pools_by_tenant_;  // ascending by level
    std::vector<Allocation> slots_;
    std::vector<std::int32_t> free_slots_;
};

}  // namespace hivecore::cells
