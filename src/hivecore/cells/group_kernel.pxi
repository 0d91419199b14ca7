"""The C++ side of the group scheduler, as its binding uses it."""


cdef extern from "cells/group_scheduler.hpp" namespace "hivecore::cells" nogil:
    cdef cppclass ChainSpec:
        ChainSpec(Shape, int32_t) except +

    cdef cppclass PoolSpec:
        int32_t vc
        int32_t chain
        int32_t level
        int64_t count
        int64_t pinned_cell

    cdef cppclass VirtualLeaf:
        int32_t pool
        CellIndex leaf

    cdef cppclass Placed:
        uint32_t leaf
        int32_t pod
        VirtualLeaf held

    cdef enum class PlanOutcome(uint8_t):
        bind
        preempt
        wait

    cdef enum class PlanReason(uint8_t):
        none

    cdef enum class Evictions(uint8_t):
        packing
        least
        alone

    cdef cppclass PlanRequest "hivecore::cells::Request":
        int32_t vc
        int32_t chain
        int32_t pin
        int32_t priority
        vector[int64_t] sizes
        vector[int32_t] within
        int32_t group_within
        bint spread
        bint merge
        Evictions evictions
        bint has_suggested
        bint has_units
        vector[CellIndex] suggested
        vector[int64_t] units
        vector[CellIndex] most

    cdef cppclass KernelPlan "hivecore::cells::Plan":
        PlanOutcome outcome
        PlanReason reason
        int32_t vc
        int32_t priority
        int32_t pods
        vector[Placed] leaves
        vector[int32_t] victims
        vector[int32_t] cancels
        vector[int32_t] downgrades
        vector[uint64_t] stamps

    cdef cppclass KernelGroup "hivecore::cells::Group":
        uint64_t sequence
        int32_t vc
        int32_t priority
        int32_t pods
        bint lazy
        bint preempting
        bint guaranteed

    cdef cppclass Mark:
        pass

    cdef cppclass GroupAttributes:
        int32_t vc
        int32_t priority
        int32_t pods
        bint lazy
        bint preempting
        bint guaranteed


ctypedef span[const ChainSpec] ChainSpecs
ctypedef span[const PoolSpec] PoolSpecs
ctypedef span[const Placed] PlacedLeaves
ctypedef span[const vector[uint8_t]] AllowedNodes


cdef extern from "cells/group_scheduler.hpp" namespace "hivecore::cells" nogil:
    cdef cppclass Surplus "std::array<std::int64_t, hivecore::cells::kMaxLevels>":
        int64_t& operator[](size_t)

    cdef cppclass VirtualCell "hivecore::cells::VirtualCells::Cell":
        CellIndex partner
        CellIndex used

    cdef cppclass Pool "hivecore::cells::VirtualCells::Pool":
        int32_t vc
        int32_t chain
        int32_t level
        int32_t instance
        bint pinned() noexcept
        IndexSet free_roots

    cdef cppclass KernelNode "hivecore::cells::PhysicalCells::Node":
        CellIndex idle

    cdef cppclass PhysicalCells:
        const Shape& shape() noexcept
        int node_level() noexcept
        const KernelNode& node(CellIndex) noexcept
        bint healthy(CellIndex) noexcept
        Surplus surplus() noexcept
        bint is_listed(int, CellIndex) noexcept

    cdef cppclass VirtualCells:
        int32_t size() noexcept
        int32_t chains() noexcept
        int32_t tenants() noexcept
        const Pool& pool(int32_t) noexcept
        const PhysicalCells& physical(int32_t) noexcept
        int32_t instance_of(int32_t, int32_t) noexcept
        CellIndex cells(int32_t, int) noexcept
        const VirtualCell& cell(int32_t, int, CellIndex) noexcept

    cdef cppclass KernelGroups "hivecore::cells::Groups":
        uint32_t leaf_count() noexcept
        uint32_t first_leaf(int32_t) noexcept
        int32_t chain_of(uint32_t) noexcept
        int32_t user(uint32_t) noexcept
        int32_t reserver(uint32_t) noexcept
        int32_t holder(uint32_t) noexcept
        void set_health(uint32_t, uint32_t, bint) except +
        bint is_live(int64_t) noexcept
        const KernelGroup& group(int32_t) noexcept
        PlacedLeaves leaves(int32_t) noexcept
        vector[int32_t] by_sequence() except +
        vector[int32_t] victims(int32_t) except +
        bint is_being_preempted(int32_t) noexcept
        bint is_downgraded(int32_t) noexcept
        int32_t carry_out(const KernelPlan&, bint, bint) except +
        bint confirm(int32_t) except +
        void cancel(int32_t) except +
        void release(int32_t) except +
        int32_t recover(const GroupAttributes&, vector[Placed], bint, vector[int32_t]&) except +
        int32_t restore(const GroupAttributes&, PlacedLeaves) except +
        Mark mark() except +
        void rewind(const Mark&) except +
        void keep_last() except +

    cdef cppclass UnitView:
        int32_t pool
        CellIndex index
        CellIndex leaves
        CellIndex available
        CellIndex used
        int64_t node

    cdef cppclass Doomed:
        int32_t level
        int32_t vc
        int64_t count

    cdef cppclass Scheduler "hivecore::cells::GroupScheduler":
        Scheduler(ChainSpecs, int32_t, PoolSpecs) except +
        Scheduler(const Scheduler&) except +
        KernelGroups& groups() noexcept
        const VirtualCells& virtual_cells() noexcept
        void schedule(const PlanRequest&, KernelPlan&) except +
        int64_t unit_count(int32_t) noexcept
        vector[UnitView] units(int32_t) except +
        vector[Doomed] doomed(int32_t) except +
        bint placement_good(int32_t, AllowedNodes) noexcept
        string audit() except +
        uint64_t bytes() noexcept


cdef extern from *:
    """
    // Cython has no way to construct a type without a default constructor in place.
    static inline void add_chain(std::vector<hivecore::cells::ChainSpec>& chains,
                                 std::span<const hivecore::cells::CellIndex> fanouts,
                                 hivecore::cells::CellIndex roots, std::int32_t node_level) {
        chains.push_back({hivecore::cells::Shape(fanouts, roots), node_level});
    }
    """
    void add_chain(vector[ChainSpec]&, Fanouts, CellIndex, int32_t) except +
