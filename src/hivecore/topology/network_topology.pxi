"""Numbered domains of a network, the slots of its nodes, and where gangs go."""


cdef extern from "topology/network_topology.hpp" namespace "hivecore::topology" nogil:
    cdef cppclass Network:
        Network(const vector[vector[int32_t]]&) except +
        int deepest() noexcept
        int32_t size(int) noexcept

    cdef cppclass Option:
        int64_t pods
        int64_t others

    cdef cppclass WishRecord "hivecore::topology::Wish":
        int64_t pods
        int64_t others
        int widest
        int narrowest
        vector[int64_t] multiples
        vector[int64_t] limits
        Values existing
        Values cost
        int64_t work
        Values begins
        span[const Option] options

    cdef cppclass NodePods:
        int32_t node
        int64_t pods
        int64_t others

    cdef cppclass PlacementRecord "hivecore::topology::Placement":
        int level
        int32_t domain
        vector[NodePods] pods
        bool_t is_optimal
        vector[int64_t] fewest

    cdef cppclass TopologyState "hivecore::topology::NetworkTopology":
        TopologyState(shared_ptr[Network]) except +
        TopologyState(const TopologyState&) except +
        const Network& network() noexcept
        void set_slots(int32_t, int64_t) except +
        Values slots(int) noexcept
        PlacementRecord place(const WishRecord&) except +
        PlacementRecord place(const WishRecord&, const TopologyState*) except +
        string audit() except +
        uint64_t bytes() noexcept

    int64_t MOST_SLOTS "hivecore::topology::kMostSlots"


ctypedef span[const Option] Options


cdef enum:
    MOST_NODES = 1048576
    MOST_LEVELS = 63


@cython.final
cdef class TopologyKernel(KernelObject):
    """TopologyKernel(counts)\n--\n\nSlots of nodes, added up in the domains of a network.

    `counts[l]` are the numbers of children of the domains of level l; level 0 is one domain, the
    children of the last ones are the nodes. `hivecore.topology.NetworkTopology` is this with names.

    >>> kernel = TopologyKernel([[2], [2, 1]])
    >>> kernel.set_slots([0, 1, 2], [4, 4, 6])
    >>> kernel.place(8, 0, 2, [], None, None, 1000)
    (1, 0, [(0, 4, 0), (1, 4, 0)], True, [])
    """

    cdef TopologyState* kernel

    def __cinit__(self, counts):
        cdef vector[vector[int32_t]] levels
        cdef vector[int32_t] level
        cdef int64_t expected = 1
        for row in counts:
            level.clear()
            for count in row:
                level.push_back(<int32_t> as_bounded(count, "counts", 1, MOST_NODES))
            if level.size() != <size_t> expected or levels.size() == MOST_LEVELS:
                raise ValueError(f"counts: level {levels.size()} is impossible")
            expected = sum(row)
            if expected > MOST_NODES:
                raise ValueError(f"counts: there are more than {MOST_NODES}")
            levels.push_back(level)
        if levels.empty():
            raise ValueError("counts: is empty")
        self.kernel = new TopologyState(make_shared[Network](levels))

    def __dealloc__(self):
        del self.kernel

    def set_slots(self, nodes, slots):
        """Of each of these nodes; all of them or none."""
        cdef Guard guard
        cdef cnp.ndarray numbers = as_int64_array(nodes, "nodes", 0)
        cdef cnp.ndarray amounts = as_int64_array(slots, "slots", 0)
        cdef Values which = as_values(numbers)
        cdef Values what = as_values(amounts)
        cdef size_t i
        cdef int deepest
        if which.size() != what.size():
            raise ValueError(f"slots must have length {which.size()}, not {what.size()}")
        guard.lock(self.mutex)
        deepest = self.kernel.network().deepest()
        for i in range(which.size()):
            if not 0 <= which[i] < self.kernel.network().size(deepest):
                raise KeyError(which[i])
            if not 0 <= what[i] <= MOST_SLOTS:
                raise ValueError(f"slots[{i}]={what[i]}: allowed are 0 to {MOST_SLOTS}")
        guard.keep()
        with nogil:
            for i in range(which.size()):
                self.kernel.set_slots(<int32_t> which[i], what[i])

    def slots(self, level):
        """Of each domain of a level, int64."""
        cdef Guard guard
        cdef Values counts
        cdef cnp.ndarray result
        guard.lock(self.mutex)
        counts = self.kernel.slots(
            <int> as_bounded(level, "level", 0, self.kernel.network().deepest())
        )
        result = new_int64_array(counts.size())
        if counts.size() > 0:
            memcpy(cnp.PyArray_DATA(result), counts.data(), 8 * counts.size())
        return result

    def place(self, pods, widest, narrowest, multiples, existing, cost, work, limits=()):
        """(level, domain, (node, pods, 0) in order, whether that is optimal, the fewest domains).

        Level -1: it cannot be placed, or that was not found out.
        """
        cdef Guard guard
        cdef WishRecord wish
        cdef PlacementRecord placement
        cdef cnp.ndarray near
        cdef cnp.ndarray costs
        cdef int deepest = self.kernel.network().deepest()
        cdef int32_t nodes = self.kernel.network().size(deepest)
        self.read_wish(&wish, pods, widest, narrowest, work)
        for multiple in multiples:
            wish.multiples.push_back(as_bounded(multiple, "multiples", 1, MOST_SLOTS))
        if not wish.multiples.empty() and wish.multiples.size() != <size_t> deepest + 1:
            raise ValueError(f"multiples must have length {deepest + 1}")
        for limit in limits:
            wish.limits.push_back(as_bounded(limit, "limits", 1, MOST_SLOTS))
        if not wish.limits.empty() and wish.limits.size() != <size_t> deepest + 1:
            raise ValueError(f"limits must have length {deepest + 1}")
        if existing is not None:
            near = as_amounts_of(existing, "existing", nodes)
            wish.existing = as_values(near)
        if cost is not None:
            costs = as_amounts_of(cost, "cost", nodes)
            wish.cost = as_values(costs)
        guard.lock(self.mutex)
        guard.keep()
        with nogil:
            placement = self.kernel.place(wish)
        return described(placement)

    def place_roles(
        self, pods, widest, narrowest, existing, cost, work, TopologyKernel other, others,
        begins, option_pods, option_others
    ):
        """The same of a gang with others of a second role, whose slots another kernel of this
        network has; nodes with (node, pods, others).

        The pairs of (pods, others) that node i has room for, at most, are those from `begins[i]` to
        `begins[i + 1]`.
        """
        cdef Guard guard
        cdef Guard second
        cdef WishRecord wish
        cdef PlacementRecord placement
        cdef cnp.ndarray near
        cdef cnp.ndarray costs
        cdef cnp.ndarray begin_array = as_int64_array(begins, "begins", 0)
        cdef cnp.ndarray pods_array = as_int64_array(option_pods, "option_pods", 0)
        cdef cnp.ndarray others_array = as_int64_array(option_others, "option_others", 0)
        cdef Values starts = as_values(begin_array)
        cdef Values of_pods = as_values(pods_array)
        cdef Values of_others = as_values(others_array)
        cdef vector[Option] pairs
        cdef size_t i
        cdef int deepest = self.kernel.network().deepest()
        cdef int32_t nodes = self.kernel.network().size(deepest)
        cdef TopologyState* slots_of_others
        if other is None or other is self or other.kernel.network().deepest() != deepest:
            raise ValueError("other: is no other kernel of this network")
        if other.kernel.network().size(deepest) != nodes:
            raise ValueError("other: is no other kernel of this network")
        self.read_wish(&wish, pods, widest, narrowest, work)
        wish.others = as_bounded(others, "others", 1, MOST_SLOTS)
        if of_pods.size() != of_others.size():
            raise ValueError(f"option_others must have length {of_pods.size()}")
        pairs.resize(of_pods.size())
        for i in range(of_pods.size()):
            if not (0 <= of_pods[i] <= MOST_SLOTS and 0 <= of_others[i] <= MOST_SLOTS):
                raise ValueError(f"options: allowed are 0 to {MOST_SLOTS}")
            pairs[i].pods = of_pods[i]
            pairs[i].others = of_others[i]
        if starts.size() != <size_t> nodes + 1 or starts[0] != 0:
            raise ValueError(f"begins must have length {nodes + 1} and begin with 0")
        for i in range(<size_t> nodes):
            if starts[i + 1] < starts[i]:
                raise ValueError("begins: goes down")
        if starts[nodes] != <int64_t> pairs.size():
            raise ValueError(f"begins: ends with {starts[nodes]}, not {pairs.size()}")
        wish.begins = starts
        wish.options = Options(pairs.data(), pairs.size())
        if existing is not None:
            near = as_amounts_of(existing, "existing", nodes)
            wish.existing = as_values(near)
        if cost is not None:
            costs = as_amounts_of(cost, "cost", nodes)
            wish.cost = as_values(costs)
        slots_of_others = other.kernel
        guard.lock(self.mutex)
        second.lock(other.mutex)
        guard.keep()
        with nogil:
            placement = self.kernel.place(wish, slots_of_others)
        return described(placement)

    cdef int read_wish(
        self, WishRecord* wish, object pods, object widest, object narrowest, object work
    ) except -1:
        cdef int deepest = self.kernel.network().deepest()
        wish.pods = as_bounded(pods, "pods", 1, MOST_SLOTS)
        wish.widest = <int> as_bounded(widest, "widest", 0, deepest)
        wish.narrowest = <int> as_bounded(narrowest, "narrowest", wish.widest, deepest)
        wish.work = as_bounded(work, "work", 0, <int64_t> 1 << 62)
        return 0

    def copy(self):
        """An independent equal."""
        cdef Guard guard
        cdef TopologyKernel other = TopologyKernel.__new__(TopologyKernel, [[1]])
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        return other

    cdef string find_fault(self) except * nogil:
        return self.kernel.audit()

    cdef uint64_t kernel_bytes(self) noexcept:
        return self.kernel.bytes()

    def __reduce__(self):
        raise TypeError("a TopologyKernel is saved by the NetworkTopology that it belongs to")


cdef object described(const PlacementRecord& placement):
    cdef size_t i
    return (
        placement.level,
        placement.domain,
        [
            (placement.pods[i].node, placement.pods[i].pods, placement.pods[i].others)
            for i in range(placement.pods.size())
        ],
        placement.is_optimal,
        [placement.fewest[i] for i in range(placement.fewest.size())],
    )


cdef cnp.ndarray as_amounts_of(object values, str name, int32_t nodes):
    """An amount for each node; all together are at most 2^31."""
    cdef cnp.ndarray array = as_int64_array(values, name, 0)
    cdef Values amounts = as_values(array)
    cdef int64_t total = 0
    cdef size_t i
    if amounts.size() != <size_t> nodes:
        raise ValueError(f"{name} must have length {nodes}, not {amounts.size()}")
    for i in range(amounts.size()):
        if not 0 <= amounts[i] <= MOST_SLOTS - total:
            raise ValueError(f"{name}[{i}]={amounts[i]}: allowed are 0 to {MOST_SLOTS} in all")
        total += amounts[i]
    return array
