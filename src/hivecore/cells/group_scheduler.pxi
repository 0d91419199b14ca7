"""The binding of the group scheduler: ids and sizes are checked, names and messages are the wrapper's."""

GroupState = namedtuple(
    "GroupState",
    "vc priority lazy preempting pods virtual being_preempted",
    module="hivecore._cells",
)
GroupState.__doc__ = """What `GroupScheduler.group` tells; ``virtual`` is None without a guarantee."""
UnitState = namedtuple(
    "UnitState", "pool cell leaves available used node", module="hivecore._cells"
)
UnitState.__doc__ = """What `GroupScheduler.units` tells; ``node`` is -1 if none backs the unit."""


cdef enum:
    MAX_PRIORITY = 1000
    MAX_CELLS = 0x7FFFFFFF


cdef int read_numbers(
    object nodes, str name, int64_t number, vector[CellIndex]& numbers
) except -1:
    """Numbers below `number`: an array of int32, or any integers."""
    cdef cnp.ndarray listed
    cdef CellIndex highest = 0
    cdef CellIndex node
    if isinstance(nodes, np.ndarray) and nodes.dtype == np.int32 and nodes.ndim == 1:
        # What is looked at is the copy, which no other thread can change.
        listed = np.ascontiguousarray(nodes)
        numbers.resize(<size_t> cnp.PyArray_SIZE(listed))
        if not numbers.empty():
            memcpy(numbers.data(), cnp.PyArray_DATA(listed), 4 * numbers.size())
        for node in numbers:
            highest = max(highest, node)  # a negative number is a huge one
        if highest >= number:
            for node in numbers:
                as_bounded(<int32_t> node, name, 0, number - 1)
        return 0
    for value in nodes:
        numbers.push_back(as_bounded(value, name, 0, number - 1))
    return 0


@cython.final
cdef class GroupScheduler(KernelObject):
    """GroupScheduler(chains, tenants, pools, pins)\n--\n\nThe kernel behind `hivecore.cells.CellCluster`, which knows names.

    Chains, tenants, levels, cells and pools are numbers from 0; leaves are counted over all chains.

    :param chains: list of (fanouts, roots, node level).
    :param tenants: number of tenants.
    :param pools: list of (tenant, chain, level, count), strictly ascending by the first three.
    :param pins: list of (tenant, chain, level, cell).
    :raises ValueError: a number is out of range, pins overlap, or what is owned does not fit.
    """

    cdef Scheduler* kernel

    def __cinit__(self, chains, tenants, pools, pins):
        cdef vector[ChainSpec] shapes
        cdef vector[CellIndex] flat
        cdef vector[PoolSpec] owned
        cdef PoolSpec spec
        tops = []
        sizes = []
        for number, (fanouts, roots, node_level) in enumerate(chains):
            name = f"chains[{number}]"
            flat.clear()
            widths = [1]
            for fanout in fanouts:
                flat.push_back(as_bounded(fanout, f"{name} fanouts", 1, MAX_CELLS))
                widths.append(widths[-1] * flat.back())
            level = as_bounded(node_level, f"{name} node_level", 0, flat.size())
            count = as_bounded(roots, f"{name} roots", 1, MAX_CELLS)
            try:
                add_chain(shapes, Fanouts(flat.data(), flat.size()), count, level)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            tops.append(len(widths) - 1)
            sizes.append([count * widths[-1] // width for width in widths])
        cdef int32_t many = as_bounded(tenants, "tenants", 0, MAX_CELLS)
        if many * len(tops) > MAX_CELLS:
            raise ValueError(f"tenants={many}: too many for {len(tops)} chains")
        before = None
        for number, (vc, chain, level, count) in enumerate(pools):
            name = f"pools[{number}]"
            spec.vc = as_bounded(vc, f"{name} vc", 0, many - 1)
            spec.chain = as_bounded(chain, f"{name} chain", 0, len(tops) - 1)
            spec.level = as_bounded(level, f"{name} level", 0, tops[spec.chain])
            spec.count = as_bounded(count, f"{name} count", 1, INT64_MAX)
            spec.pinned_cell = -1
            key = spec.vc, spec.chain, spec.level
            if before is not None and before >= key:
                raise ValueError(f"{name} must follow pools[{number - 1}] in order")
            before = key
            owned.push_back(spec)
        for number, (vc, chain, level, cell) in enumerate(pins):
            name = f"pins[{number}]"
            spec.vc = as_bounded(vc, f"{name} vc", 0, many - 1)
            spec.chain = as_bounded(chain, f"{name} chain", 0, len(tops) - 1)
            spec.level = as_bounded(level, f"{name} level", 0, tops[spec.chain])
            spec.count = 1
            spec.pinned_cell = as_bounded(
                cell, f"{name} cell", 0, sizes[spec.chain][spec.level] - 1
            )
            owned.push_back(spec)
        self.kernel = new Scheduler(
            ChainSpecs(shapes.data(), shapes.size()),
            many,
            PoolSpecs(owned.data(), owned.size()),
        )

    def __dealloc__(self):
        del self.kernel

    cdef int32_t as_chain(self, object chain) except -1:
        return as_bounded(chain, "chain", 0, self.kernel.virtual_cells().chains() - 1)

    cdef int32_t as_pool(self, object pool) except -1:
        return as_bounded(pool, "pool", 0, self.kernel.virtual_cells().size() - 1)

    cdef int as_level(self, object level, int highest) except -1:
        return as_bounded(level, "level", 0, highest)

    cdef int32_t as_handle(self, object handle, Guard& guard) except -1:
        """The handle of a live group; the turn begins between its conversion and the look at it."""
        cdef int64_t number = as_int64(handle, "handle")
        guard.lock(self.mutex)
        if not self.kernel.groups().is_live(number):
            raise ValueError(f"handle={number}: not that of a live group")
        return number

    cdef int32_t as_instance(self, int32_t vc, int32_t chain, int32_t pool) except -1:
        """What a request of the tenant may use, by id."""
        if pool < 0:
            return self.kernel.virtual_cells().instance_of(vc, chain)
        cdef const Pool* pin = &self.kernel.virtual_cells().pool(pool)
        if not pin.pinned() or pin.vc != vc or pin.chain != chain:
            raise ValueError(f"pool={pool}: must be -1 or a pin of tenant {vc} in chain {chain}")
        return pin.instance

    def schedule(
        self, vc, chain, pool, priority, sizes, within, group_within, spread, merge, suggested,
        units, evictions=0, most=None, /
    ):
        """Plan a group; nothing changes.

        :param pool: the pool number of a pin, or -1: all that the tenant owns in the chain.
        :param priority: 0 to 1000, or -1 for opportunistic work.
        :param sizes: leaves of each pod, at least 1.
        :param within: per pod the level of one cell that it must lie in, or -1; or None.
        :param group_within: the same for all pods together.
        :param spread: least used units first.
        :param merge: let a pod lie in several virtual cells below node level.
        :param suggested: the nodes of the chain that may be used; None: all.
        :param units: per pod the number of its unit, see ``units``; None: the scheduler chooses.
        :param evictions: 0: as few as packing allows; 1: as few as possible; 2: the units are those
            of a cluster without others, and only where they are bound is up to evictions.
        :param most: per node of the chain how many pods it may get; None: any number.
        :raises ValueError: a number is out of range, or lengths differ.
        """
        cdef Guard guard
        cdef PlanRequest request
        cdef int64_t number
        cdef int32_t instance
        cdef const PhysicalCells* physical
        cdef Plan plan = Plan.__new__(Plan)
        request.vc = as_bounded(vc, "vc", 0, self.kernel.virtual_cells().tenants() - 1)
        request.chain = as_bounded(chain, "chain", 0, self.kernel.virtual_cells().chains() - 1)
        request.pin = as_bounded(pool, "pool", -1, self.kernel.virtual_cells().size() - 1)
        request.priority = as_bounded(priority, "priority", -1, MAX_PRIORITY)
        instance = self.as_instance(request.vc, request.chain, request.pin)
        if request.priority < 0 and request.pin >= 0:
            raise ValueError(f"pool={request.pin}: must be -1 for opportunistic work")
        physical = &self.kernel.virtual_cells().physical(request.chain)
        cdef int top = physical.shape().levels - 1
        for size in sizes:
            number = as_int64(size, "sizes")
            if number < 1:
                raise ValueError(f"sizes[{request.sizes.size()}]={number}: must be at least 1")
            request.sizes.push_back(number)
        if request.sizes.empty():
            raise ValueError("sizes must name at least one pod")
        if within is not None:
            for level in within:
                request.within.push_back(as_bounded(level, "within", -1, top))
            if request.within.size() != request.sizes.size():
                raise ValueError(
                    f"within has {request.within.size()} levels, sizes has {request.sizes.size()}"
                )
        request.group_within = as_bounded(group_within, "group_within", -1, top)
        request.spread = bool(spread)
        request.merge = bool(merge)
        request.evictions = <Evictions>as_bounded(evictions, "evictions", 0, 2)
        request.has_suggested = suggested is not None
        if suggested is not None:
            number = physical.shape().size[physical.node_level()]
            read_numbers(suggested, "suggested", number, request.suggested)
        if most is not None:
            number = physical.shape().size[physical.node_level()]
            read_numbers(most, "most", <int64_t> 1 << 31, request.most)
            if <int64_t> request.most.size() != number:
                raise ValueError(f"most has {request.most.size()} numbers, the nodes are {number}")
        request.has_units = units is not None
        if units is not None:
            if request.priority < 0:
                raise ValueError("units must be None for opportunistic work: it has none")
            number = self.kernel.unit_count(instance)
            for unit in units:
                request.units.push_back(as_bounded(unit, "units", 0, number - 1))
            if request.units.size() != request.sizes.size():
                raise ValueError(
                    f"units has {request.units.size()} numbers, sizes has {request.sizes.size()}"
                )
        guard.lock(self.mutex)
        if request.sizes.size() <= LONG_GANG:
            self.kernel.schedule(request, plan.plan)
            return plan
        guard.keep()
        with nogil:
            self.kernel.schedule(request, plan.plan)
        return plan

    cdef int64_t carry_out(self, Plan plan, bint lazy, bint preempting) except -1:
        cdef Guard guard
        cdef int32_t handle
        guard.lock(self.mutex)
        handle = self.kernel.groups().carry_out(plan.plan, lazy, preempting)
        if handle < 0:
            raise StaleDecisionError("plan: the state has moved on, so that it no longer fits")
        return handle

    def commit(self, Plan plan not None, lazy, /):
        """Let the planned group run: its handle.

        :raises StaleDecisionError: a planned leaf is used, bad or not to be had any more.
        :raises ValueError: the plan is to wait.
        """
        if plan.plan.outcome == PlanOutcome.wait:
            raise ValueError("plan.outcome must not be 'wait'")
        return self.carry_out(plan, bool(lazy), False)

    def reserve(self, Plan plan not None, lazy, /):
        """Take the planned leaves from under their users: the handle of a preempting group.

        :raises StaleDecisionError: as ``commit``, but users may be there.
        :raises ValueError: the plan is not to preempt.
        """
        if plan.plan.outcome != PlanOutcome.preempt:
            raise ValueError("plan.outcome must be 'preempt'")
        return self.carry_out(plan, bool(lazy), True)

    def plan(self, vc, priority, pods, virtual, cancels, downgrades, /):
        """A plan to bind that was made elsewhere, of the groups with these handles here.

        :param virtual: of each leaf (pool, leaf of the pool), or None for opportunistic work.
        :raises ValueError: a number is out of range, or a leaf is named twice.
        """
        cdef Guard guard
        cdef GroupAttributes attributes
        cdef Plan plan = Plan.__new__(Plan)
        cdef int32_t live
        attributes.vc = as_bounded(vc, "vc", 0, self.kernel.virtual_cells().tenants() - 1)
        attributes.priority = as_bounded(priority, "priority", -1, MAX_PRIORITY)
        if (virtual is None) != (attributes.priority < 0):
            raise ValueError("virtual must be None for opportunistic work, and only for that")
        self.fill(pods, virtual, "virtual", True, plan.plan.leaves, attributes)
        plan.plan.outcome = PlanOutcome.bind
        plan.plan.vc = attributes.vc
        plan.plan.priority = attributes.priority
        plan.plan.pods = attributes.pods
        downgrades = list(downgrades)
        if len(set(downgrades)) != len(downgrades):
            raise ValueError("downgrades must not name a group twice")
        for handle in downgrades:
            live = self.as_handle(handle, guard)
            plan.plan.downgrades.push_back(live)
            plan.plan.stamps.push_back(self.kernel.groups().group(live).sequence)
        for handle in cancels:
            live = self.as_handle(handle, guard)
            plan.plan.cancels.push_back(live)
            plan.plan.stamps.push_back(self.kernel.groups().group(live).sequence)
        return plan

    cdef int32_t as_preempting(self, object handle, Guard& guard) except -1:
        cdef int32_t live = self.as_handle(handle, guard)
        if not self.kernel.groups().group(live).preempting:
            raise ValueError(f"handle={live}: not that of a preempting group")
        return live

    def confirm(self, handle, /):
        """A preempting group whose victims have left runs now; its leaves must all be healthy."""
        cdef Guard guard
        cdef int32_t live = self.as_preempting(handle, guard)
        if not self.kernel.groups().confirm(live):
            raise ValueError(
                f"handle={live}: must be that of a group without victims and bad leaves"
            )

    def cancel(self, handle, /):
        """A preempting group gives up; what it reserved goes back to the users."""
        cdef Guard guard
        self.kernel.groups().cancel(self.as_preempting(handle, guard))

    def release(self, handle, /):
        """A group has ended."""
        cdef Guard guard
        self.kernel.groups().release(self.as_handle(handle, guard))

    cdef int fill(
        self, pods, beside, str name, bint virtual, vector[Placed]& leaves, GroupAttributes& attributes
    ) except -1:
        """The leaves of a group with what is given beside each: a pool, or a virtual leaf."""
        cdef Placed placed
        cdef int64_t number
        cdef int64_t last = <int64_t> self.kernel.groups().leaf_count() - 1
        cdef int32_t pools = self.kernel.virtual_cells().size()
        attributes.pods = 0
        others = None if beside is None else list(beside)
        for pod in pods:
            pod = list(pod)
            other = None
            if others is not None:
                if attributes.pods >= len(others):
                    raise ValueError(f"{name} must have an entry for each leaf of each pod")
                other = list(others[attributes.pods])
                if len(other) != len(pod):
                    raise ValueError(f"{name} must have an entry for each leaf of each pod")
            for position, leaf in enumerate(pod):
                placed.leaf = as_bounded(leaf, "pods", 0, last)
                placed.pod = attributes.pods
                placed.held.pool = -1
                placed.held.leaf = 0
                if virtual and other is not None:
                    pool, index = other[position]
                    placed.held.pool = as_bounded(pool, name, 0, pools - 1)
                    number = self.kernel.virtual_cells().cells(placed.held.pool, 0)
                    placed.held.leaf = as_bounded(index, name, 0, number - 1)
                elif other is not None:
                    placed.held.pool = as_bounded(other[position], name, -1, pools - 1)
                if placed.held.pool >= 0:
                    if self.kernel.virtual_cells().pool(placed.held.pool).vc != attributes.vc:
                        raise ValueError(
                            f"{name}: pool {placed.held.pool} is not tenant {attributes.vc}'s"
                        )
                    if (
                        self.kernel.virtual_cells().pool(placed.held.pool).chain
                        != self.kernel.groups().chain_of(placed.leaf)
                    ):
                        raise ValueError(
                            f"{name}: pool {placed.held.pool} is not in the chain of leaf "
                            f"{placed.leaf}"
                        )
                leaves.push_back(placed)
            attributes.pods += 1
        if others is not None and attributes.pods != len(others):
            raise ValueError(f"{name} must have an entry for each leaf of each pod")
        seen = set()
        for placed in leaves:
            if placed.leaf in seen:
                raise ValueError(f"pods must not name leaf {placed.leaf} twice")
            seen.add(placed.leaf)
        return 0

    def recover(self, vc, priority, lazy, pods, pools, displace=True, /):
        """Put back a group that runs: (handle, whether it is downgraded, which groups
        were for it).

        :param pods: list of lists of leaves.
        :param pools: likewise, the pool of each leaf, or -1: unknown.
        :param displace: whether less important groups may be downgraded for its sake.
        :raises ValueError: a leaf is used or reserved, or named twice; nothing has changed.
        """
        cdef Guard guard
        cdef GroupAttributes attributes
        cdef vector[Placed] leaves
        cdef vector[int32_t] displaced
        cdef int32_t handle
        cdef Placed placed
        cdef bint may_displace = bool(displace)
        attributes.vc = as_bounded(vc, "vc", 0, self.kernel.virtual_cells().tenants() - 1)
        attributes.priority = as_bounded(priority, "priority", -1, MAX_PRIORITY)
        attributes.lazy = bool(lazy)
        attributes.preempting = False
        attributes.guaranteed = False
        if pools is None:
            raise TypeError("pools must have a list for each pod, not be None")
        self.fill(pods, pools, "pools", False, leaves, attributes)
        guard.lock(self.mutex)
        for placed in leaves:
            if self.kernel.groups().holder(placed.leaf) >= 0:
                raise ValueError(f"pods: leaf {placed.leaf} is used or reserved")
        handle = self.kernel.groups().recover(attributes, leaves, may_displace, displaced)
        return (
            handle,
            attributes.priority >= 0 and not self.kernel.groups().group(handle).guaranteed,
            plain_list(displaced),
        )

    def restore(self, vc, priority, lazy, preempting, pods, virtual, pools=None, /):
        """Put back a group as ``group`` described it, after all with lower sequence numbers: its
        handle.

        :param pools: of a downgraded group, what ``wanted_pools`` returned.

        :raises ValueError: it does not fit; nothing has changed.
        """
        cdef Guard guard
        cdef GroupAttributes attributes
        cdef vector[Placed] leaves
        cdef int32_t handle
        cdef Placed placed
        attributes.vc = as_bounded(vc, "vc", 0, self.kernel.virtual_cells().tenants() - 1)
        attributes.priority = as_bounded(priority, "priority", -1, MAX_PRIORITY)
        attributes.lazy = bool(lazy)
        attributes.preempting = bool(preempting)
        attributes.guaranteed = virtual is not None
        if not attributes.guaranteed and attributes.preempting:
            raise ValueError("virtual must not be None for a preempting group")
        if attributes.guaranteed and attributes.priority < 0:
            raise ValueError("virtual must be None for an opportunistic group")
        if virtual is None and attributes.priority >= 0:
            self.fill(pods, pools, "pools", False, leaves, attributes)
        else:
            if pools is not None:
                raise ValueError("pools must be None but for a downgraded group")
            self.fill(pods, virtual, "virtual", True, leaves, attributes)
        guard.lock(self.mutex)
        for placed in leaves:
            if (
                self.kernel.groups().reserver(placed.leaf) >= 0
                or (self.kernel.groups().user(placed.leaf) >= 0 and not attributes.preempting)
            ):
                raise ValueError(f"pods: leaf {placed.leaf} is used or reserved")
        handle = self.kernel.groups().restore(attributes, PlacedLeaves(leaves.data(), leaves.size()))
        if handle < 0:
            raise ValueError("virtual: a leaf cannot be held by its virtual leaf")
        return handle

    def set_health(self, first, end, healthy, /):
        """Mark the leaves from ``first`` up to ``end``; the groups on them keep them."""
        cdef Guard guard
        cdef int64_t leaves = self.kernel.groups().leaf_count()
        cdef int64_t low = as_bounded(first, "first", 0, leaves)
        cdef int64_t high = as_bounded(end, "end", low, leaves)
        cdef bint good = bool(healthy)
        guard.lock(self.mutex)
        self.kernel.groups().set_health(low, high, good)

    # --- looking

    def victims(self, handle, /):
        """The other groups that still use the group's leaves, by sequence."""
        cdef Guard guard
        return plain_list(self.kernel.groups().victims(self.as_handle(handle, guard)))

    def placement_good(self, handle, suggested, /):
        """Whether all leaves are healthy and on suggested nodes: per chain a list, or None: all."""
        cdef Guard guard
        cdef vector[vector[uint8_t]] allowed
        cdef vector[CellIndex] listed
        cdef const PhysicalCells* physical
        cdef int32_t chain
        cdef CellIndex node
        cdef int64_t nodes
        if suggested is not None:
            suggested = list(suggested)
            if <int32_t> len(suggested) != self.kernel.virtual_cells().chains():
                raise ValueError(
                    f"suggested has {len(suggested)} entries, the chains are "
                    f"{self.kernel.virtual_cells().chains()}"
                )
            allowed.resize(len(suggested))
            for chain in range(self.kernel.virtual_cells().chains()):
                if suggested[chain] is not None:
                    physical = &self.kernel.virtual_cells().physical(chain)
                    nodes = physical.shape().size[physical.node_level()]
                    allowed[chain].resize(nodes)
                    listed.clear()
                    read_numbers(suggested[chain], "suggested", nodes, listed)
                    for node in listed:
                        allowed[chain][node] = 1
        cdef int32_t live = self.as_handle(handle, guard)
        return self.kernel.placement_good(
            live, AllowedNodes(allowed.data(), allowed.size())
        )

    def group(self, handle, /):
        """A live group, as a `GroupState`."""
        cdef Guard guard
        cdef int32_t live = self.as_handle(handle, guard)
        # Copies: a list may start a collection, whose finalizers may release the group.
        cdef KernelGroup record = self.kernel.groups().group(live)
        cdef PlacedLeaves held = self.kernel.groups().leaves(live)
        cdef bint being_preempted = self.kernel.groups().is_being_preempted(live)
        cdef vector[Placed] leaves
        leaves.assign(held.data(), held.data() + held.size())
        return GroupState(
            record.vc,
            record.priority,
            record.lazy,
            record.preempting,
            pods_of(leaves.data(), leaves.size(), record.pods),
            virtual_of(leaves.data(), leaves.size(), record.pods) if record.guaranteed else None,
            being_preempted,
        )

    def wanted_pools(self, handle, /):
        """Per pod and leaf the pool that a downgraded group is to be in; None: it is not one."""
        cdef Guard guard
        cdef int32_t live = self.as_handle(handle, guard)
        cdef KernelGroup record = self.kernel.groups().group(live)
        cdef PlacedLeaves held = self.kernel.groups().leaves(live)
        cdef vector[Placed] leaves
        cdef Placed placed
        if not self.kernel.groups().is_downgraded(live):
            return None
        leaves.assign(held.data(), held.data() + held.size())
        pools = [[] for _ in range(record.pods)]
        for placed in leaves:
            pools[placed.pod].append(placed.held.pool)
        return pools

    def holds(self, Plan plan not None, /):
        """Whether the groups that a plan takes from are still those that it was made with."""
        cdef Guard guard
        cdef vector[int32_t] handles
        cdef size_t i
        guard.lock(self.mutex)
        handles = plan.plan.downgrades
        handles.insert(handles.end(), plan.plan.cancels.begin(), plan.plan.cancels.end())
        for i in range(handles.size()):
            if not self.kernel.groups().is_live(handles[i]):
                return False
            if self.kernel.groups().group(handles[i]).sequence != plan.plan.stamps[i]:
                return False
        return True

    def handles(self):
        """All live groups, by sequence."""
        cdef Guard guard
        guard.lock(self.mutex)
        return plain_list(self.kernel.groups().by_sequence())

    def units(self, vc, chain, pool, /):
        """A `UnitState` per unit that a request may use.

        Policies number the units by their places in this list.
        """
        cdef Guard guard
        cdef int32_t tenant = as_bounded(vc, "vc", 0, self.kernel.virtual_cells().tenants() - 1)
        cdef int32_t where = self.as_chain(chain)
        cdef int32_t pin = as_bounded(pool, "pool", -1, self.kernel.virtual_cells().size() - 1)
        cdef int32_t instance = self.as_instance(tenant, where, pin)
        cdef vector[UnitView] views
        guard.lock(self.mutex)
        views = self.kernel.units(instance)
        return [
            UnitState(view.pool, view.index, view.leaves, view.available, view.used, view.node)
            for view in views
        ]

    def available(self, vc, chain, pool, /):
        """How many leaves these units have available together."""
        cdef Guard guard
        cdef int32_t tenant = as_bounded(vc, "vc", 0, self.kernel.virtual_cells().tenants() - 1)
        cdef int32_t where = self.as_chain(chain)
        cdef int32_t pin = as_bounded(pool, "pool", -1, self.kernel.virtual_cells().size() - 1)
        cdef int32_t instance = self.as_instance(tenant, where, pin)
        cdef int64_t total = 0
        guard.lock(self.mutex)
        for view in self.kernel.units(instance):
            total += view.available
        return total

    def surplus(self, chain, /):
        """S of every level, leaf first."""
        cdef Guard guard
        cdef int32_t where = self.as_chain(chain)
        guard.lock(self.mutex)
        cdef Surplus spare = self.kernel.virtual_cells().physical(where).surplus()
        return [spare[level] for level in range(self.kernel.virtual_cells().physical(where).shape().levels)]

    def free_cells(self, chain, level, /):
        """The canonical free list of a level: int64 array, ascending."""
        cdef Guard guard
        cdef int32_t where = self.as_chain(chain)
        cdef const PhysicalCells* physical = &self.kernel.virtual_cells().physical(where)
        cdef int row = self.as_level(level, physical.shape().levels - 1)
        cdef vector[int64_t] cells
        cdef CellIndex index
        guard.lock(self.mutex)
        for index in range(physical.shape().size[row]):
            if physical.is_listed(row, index):
                cells.push_back(index)
        return as_array(cells)

    def unbound_roots(self, pool, /):
        """How many whole cells of a pool nothing is in."""
        cdef Guard guard
        cdef int32_t number = self.as_pool(pool)
        guard.lock(self.mutex)
        return self.kernel.virtual_cells().pool(number).free_roots.size()

    def bindings(self, pool, level, /):
        """Per virtual cell of a level the physical one, -1 where it is not bound: int64 array."""
        cdef Guard guard
        cdef int32_t number = self.as_pool(pool)
        cdef int row = self.as_level(level, self.kernel.virtual_cells().pool(number).level)
        cdef CellIndex many = self.kernel.virtual_cells().cells(number, row)
        cdef cnp.ndarray result = new_int64_array(many)
        cdef int64_t* cells = <int64_t*> cnp.PyArray_DATA(result)
        cdef CellIndex index
        cdef CellIndex partner
        guard.lock(self.mutex)
        for index in range(many):
            partner = self.kernel.virtual_cells().cell(number, row, index).partner
            cells[index] = -1 if partner == 0xFFFFFFFF else <int64_t> partner
        return result

    cdef cnp.ndarray owners(self, object chain, bint reservers):
        cdef int32_t where = self.as_chain(chain)
        cdef CellIndex many = self.kernel.virtual_cells().physical(where).shape().size[0]
        cdef uint32_t first = self.kernel.groups().first_leaf(where)
        cdef cnp.ndarray result = new_int64_array(many)
        cdef int64_t* handles = <int64_t*> cnp.PyArray_DATA(result)
        cdef CellIndex leaf
        cdef Guard guard
        guard.lock(self.mutex)
        for leaf in range(many):
            if reservers:
                handles[leaf] = self.kernel.groups().reserver(first + leaf)
            else:
                handles[leaf] = self.kernel.groups().user(first + leaf)
        return result

    def leaf_users(self, chain, /):
        """Per leaf of the chain the group that runs there, or -1: int64 array."""
        return self.owners(chain, False)

    def leaf_reservers(self, chain, /):
        """Per leaf of the chain the group that preempts there, or -1: int64 array."""
        return self.owners(chain, True)

    def idle_leaves(self, chain, /):
        """Healthy leaves per node of the chain that are neither used nor reserved: int32 array."""
        cdef int32_t where = self.as_chain(chain)
        cdef const PhysicalCells* physical = &self.kernel.virtual_cells().physical(where)
        cdef CellIndex many = physical.shape().size[physical.node_level()]
        cdef cnp.npy_intp length = many
        cdef cnp.ndarray result = cnp.PyArray_SimpleNew(1, &length, cnp.NPY_INT32)
        cdef int32_t* idle = <int32_t*> cnp.PyArray_DATA(result)
        cdef CellIndex node
        cdef Guard guard
        guard.lock(self.mutex)
        for node in range(many):
            idle[node] = physical.node(node).idle
        return result

    def bad_leaves(self, chain, /):
        """The bad leaves of the chain, counted over all chains: int64 array, ascending."""
        cdef Guard guard
        cdef int32_t where = self.as_chain(chain)
        cdef const PhysicalCells* physical = &self.kernel.virtual_cells().physical(where)
        cdef uint32_t first = self.kernel.groups().first_leaf(where)
        cdef vector[int64_t] bad
        cdef CellIndex leaf
        guard.lock(self.mutex)
        for leaf in range(physical.shape().size[0]):
            if not physical.healthy(leaf):
                bad.push_back(<int64_t> first + leaf)
        return as_array(bad)

    def doomed(self, chain, /):
        """(level, tenant, count) of unbound whole cells that no healthy hardware is left for.

        All tenants are counted together; a cell that lacks is charged to the tenant with the most
        unbound ones, at a tie to the highest number. Ascending.
        """
        cdef Guard guard
        cdef int32_t where = self.as_chain(chain)
        cdef vector[Doomed] lacking
        guard.lock(self.mutex)
        lacking = self.kernel.doomed(where)
        return [(cell.level, cell.vc, cell.count) for cell in lacking]

    # --- the whole

    def copy(self):
        """An independent scheduler in the same state."""
        cdef Guard guard
        cdef GroupScheduler other = GroupScheduler.__new__(GroupScheduler, [], 0, [], [])
        cdef Scheduler* fresh = NULL
        guard.lock(self.mutex)
        guard.keep()
        with nogil:
            fresh = new Scheduler(self.kernel[0])
        del other.kernel
        other.kernel = fresh
        return other

    cdef string find_fault(self) except * nogil:
        return self.kernel.audit()

    cdef uint64_t kernel_bytes(self) noexcept:
        return self.kernel.bytes()
