"""The live groups of a scheduler by their names, in one step with the kernel.

Containers are made before anything changes, since a new one may start a collection, whose
finalizers may use the object; what goes is let go after everything has changed.
"""


@cython.final
@cython.freelist(32)
cdef class LiveGroup:
    """A group that holds or has reserved leaves; immutable, so that branches can share it."""

    cdef readonly object group
    """What was asked for."""
    cdef readonly int32_t handle
    cdef readonly object downgraded_by
    """The name of the group that downgraded it last, which it may have outlived; or None."""
    cdef readonly object record
    """Where its pods are if some of their leaves, or of their tenant's cells, are not in the
    specification any more; or None."""


cdef LiveGroup new_live_group(group, int32_t handle, downgraded_by, record):
    cdef LiveGroup made = LiveGroup.__new__(LiveGroup)
    made.group = group
    made.handle = handle
    made.downgraded_by = downgraded_by
    made.record = record
    return made


@cython.final
cdef class NamedGroups:
    """NamedGroups(core, /)\n--\n\nThe groups of a `GroupScheduler` and their names."""

    cdef readonly GroupScheduler core
    cdef readonly dict live
    """Name -> `LiveGroup`, in the order of the commits."""
    cdef readonly dict named
    """Handle -> name."""

    def __cinit__(self, GroupScheduler core not None, /):
        self.core = core
        self.live = {}
        self.named = {}

    def book(self, group, Plan plan not None, bint reserve, /):
        """Commit a plan for a group, or reserve its leaves.

        :raises StaleDecisionError: the state has moved on; nothing has changed.
        """
        cdef LiveGroup entry = new_live_group(group, -1, None, None)
        cdef list gone = []
        cdef list downgraded = []
        cdef int32_t handle
        cdef LiveGroup other
        name = group.name
        for handle in plan.plan.downgrades:
            other = self.live.get(self.named.get(handle))
            if other is not None:
                downgraded.append(new_live_group(other.group, handle, name, other.record))
        if name in self.live:
            raise StaleDecisionError(f"group {name!r} is live already")
        entry.handle = self.core.carry_out(plan, group.lazy_preemption, reserve)
        for handle in plan.plan.cancels:
            gone.append(self.live.pop(self.named.pop(handle)))
        for other in downgraded:
            gone.append(self.live[other.group.name])
            self.live[other.group.name] = other
        self.live[name] = entry
        self.named[entry.handle] = name

    def release(self, name, /):
        """A group has ended, or gives up its reservation.

        :raises KeyError: there is no such group.
        """
        cdef Guard guard
        cdef LiveGroup gone = self.known(name)
        guard.lock(self.core.mutex)
        self.core.kernel.groups().release(gone.handle)
        del self.named[gone.handle]
        del self.live[gone.group.name]

    def recover(self, group, tenant, pods, pools, displace, record, /):
        """Put back a group that runs: (whether it is downgraded, who was for its sake).

        :param record: see `LiveGroup`.
        :raises ValueError: a leaf is used or reserved, or named twice; nothing has changed.
        """
        cdef LiveGroup entry = new_live_group(group, -1, None, record)
        handle, downgraded, displaced = self.core.recover(
            tenant, group.priority, group.lazy_preemption, pods, pools, displace
        )
        entry.handle = handle
        if downgraded:
            entry.downgraded_by = group.name
        self.live[group.name] = entry
        self.named[handle] = group.name
        names = self.names_of(displaced)
        for other in names:
            self.mark_downgraded(other, group.name)
        return downgraded, names

    def enter(self, group, handle, downgraded_by, record, /):
        """A group that the core was given by itself."""
        self.live[group.name] = new_live_group(group, handle, downgraded_by, record)
        self.named[handle] = group.name

    def mark_downgraded(self, name, by, /):
        """Note for whose sake a group has lost its virtual cells."""
        cdef LiveGroup live = self.live[name]
        self.live[name] = new_live_group(live.group, live.handle, by, live.record)

    def reorder(self, names, /):
        """Let the groups be told in this order."""
        cdef dict ordered = {name: self.live[name] for name in names}
        self.live.clear()
        self.live.update(ordered)

    def copy(self):
        """An independent scheduler in the same state, and its groups."""
        cdef NamedGroups other = NamedGroups.__new__(NamedGroups, self.core)
        other.core = self.core.copy()
        other.live.update(self.live)
        other.named.update(self.named)
        return other

    def check(self):
        """Audit the kernel, and that it has these groups and no others."""
        cdef LiveGroup group
        self.core.check()
        handles = {group.handle: name for name, group in self.live.items()}
        if handles != self.named or sorted(self.core.handles()) != sorted(handles):
            raise InvariantError("the groups are not those that the core has")

    cpdef LiveGroup known(self, name):
        """A live group, or `KeyError`."""
        try:
            return self.live[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no group {name!r}") from None

    cpdef tuple names_of(self, handles):
        """The names of live handles."""
        return tuple([self.named[handle] for handle in handles])
