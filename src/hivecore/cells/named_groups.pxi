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
    cdef int64_t serial  # groups are listed in this order


cdef LiveGroup new_live_group(group, int32_t handle, downgraded_by, record, int64_t serial):
    cdef LiveGroup live = LiveGroup.__new__(LiveGroup)
    live.group = group
    live.handle = handle
    live.downgraded_by = downgraded_by
    live.record = record
    live.serial = serial
    return live


def _by_serial(item):
    return (<LiveGroup> item[1]).serial


@cython.final
cdef class NamedGroups:
    """NamedGroups(core, /)\n--\n\nThe groups of a `GroupScheduler` and their names."""

    cdef readonly GroupScheduler core
    cdef readonly dict live
    """Name -> `LiveGroup`, in the order of the commits after `sort`."""
    cdef readonly dict named
    """Handle -> name."""
    cdef int64_t next_serial
    cdef bint is_sorted
    cdef vector[Mark] marks
    cdef list changes
    """While there are marks: the name of each group that changed, and its `LiveGroup` before."""
    cdef list starts
    """How many changes there were at each mark."""

    def __cinit__(self, GroupScheduler core not None, /):
        self.core = core
        self.live = {}
        self.named = {}
        self.next_serial = 0
        self.is_sorted = True
        self.changes = []
        self.starts = []

    cdef int64_t serial(self) noexcept:
        self.next_serial += 1
        return self.next_serial

    cdef int log(self, name, before) except -1:
        if not self.marks.empty():
            self.changes.append(name)
            self.changes.append(before)
        return 0

    def book(self, group, Plan plan not None, bint reserve, /):
        """Commit a plan for a group, or reserve its leaves.

        :raises StaleDecisionError: the state has moved on; nothing has changed.
        """
        cdef LiveGroup entry = new_live_group(group, -1, None, None, self.serial())
        cdef list gone = []
        cdef list downgraded = []
        cdef int32_t handle
        cdef LiveGroup other
        name = group.name
        for handle in plan.plan.downgrades:
            other = self.live.get(self.named.get(handle))
            if other is not None:
                downgraded.append(
                    new_live_group(other.group, handle, name, other.record, other.serial)
                )
        if name in self.live:
            raise StaleDecisionError(f"group {name!r} is live already")
        entry.handle = self.core.carry_out(plan, group.lazy_preemption, reserve)
        for handle in plan.plan.cancels:
            other = self.live.pop(self.named.pop(handle))
            gone.append(other)
            self.log(other.group.name, other)
        for other in downgraded:
            gone.append(self.live[other.group.name])
            self.log(other.group.name, self.live[other.group.name])
            self.live[other.group.name] = other
        self.log(name, None)
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
        self.log(gone.group.name, gone)
        del self.named[gone.handle]
        del self.live[gone.group.name]

    def recover(self, group, tenant, pods, pools, displace, record, /):
        """Put back a group that runs: (whether it is downgraded, which groups were
        for it).

        :param record: see `LiveGroup`.
        :raises ValueError: a leaf is used or reserved, or named twice; nothing has changed.
        """
        cdef LiveGroup entry = new_live_group(group, -1, None, record, self.serial())
        handle, downgraded, displaced = self.core.recover(
            tenant, group.priority, group.lazy_preemption, pods, pools, displace
        )
        entry.handle = handle
        if downgraded:
            entry.downgraded_by = group.name
        self.log(group.name, None)
        self.live[group.name] = entry
        self.named[handle] = group.name
        names = self.names_of(displaced)
        for other in names:
            self.mark_downgraded(other, group.name)
        return downgraded, names

    def enter(self, group, handle, downgraded_by, record, /):
        """Name a group that the core was given by itself."""
        self.log(group.name, None)
        self.live[group.name] = new_live_group(
            group, handle, downgraded_by, record, self.serial()
        )
        self.named[handle] = group.name

    def rename(self, name, group, downgraded_by, /):
        """Give a group another request, which has another name; it is listed last from now on."""
        cdef LiveGroup before = self.known(name)
        self.log(name, before)
        del self.live[name]
        self.enter(group, before.handle, downgraded_by, before.record)

    def mark_downgraded(self, name, by, /):
        """Note which group has caused the loss of a group's virtual cells."""
        cdef LiveGroup live = self.live[name]
        self.log(name, live)
        self.live[name] = new_live_group(live.group, live.handle, by, live.record, live.serial)

    def reorder(self, names, /):
        """List the groups in this order. Not while there are marks."""
        cdef LiveGroup live
        for name in list(names):
            live = self.live[name]
            self.live[name] = new_live_group(
                live.group, live.handle, live.downgraded_by, live.record, self.serial()
            )
        self.is_sorted = False
        self.sort()

    def sort(self, /):
        """Bring `live` into its order, if a rewind has put groups at its end."""
        cdef dict ordered
        if not self.is_sorted:
            ordered = dict(sorted(self.live.items(), key=_by_serial))
            self.live.clear()
            self.live.update(ordered)
            self.is_sorted = True

    def mark(self, /):
        """The number of this mark, for `rewind`."""
        cdef Guard guard
        guard.lock(self.core.mutex)
        self.marks.push_back(self.core.kernel.groups().mark())
        self.starts.append(len(self.changes))
        return self.marks.size()

    def rewind(self, number, /):
        """Undo all changes since a mark, which must be the last one that is set, in O(changes).

        :raises RuntimeError: another mark was set later.
        """
        cdef Guard guard
        cdef LiveGroup before
        cdef list gone = []
        guard.lock(self.core.mutex)
        if number != <Py_ssize_t> self.marks.size():
            raise RuntimeError("a trial must end before the one in which it was begun")
        self.core.kernel.groups().rewind(self.marks.back())
        self.marks.pop_back()
        start = self.starts.pop()
        while len(self.changes) > start:
            before = self.changes.pop()
            name = self.changes.pop()
            if before is None:
                before = self.live.pop(name)
                gone.append(before)
                self.named.pop(before.handle, None)
            else:
                self.is_sorted = self.is_sorted and name in self.live
                self.live[name] = before
                self.named[before.handle] = name

    def keep(self, number, /):
        """End a mark, which must be the last one that is set; the changes since then stay.

        :raises RuntimeError: another mark was set later.
        """
        cdef Guard guard
        guard.lock(self.core.mutex)
        if number != <Py_ssize_t> self.marks.size():
            raise RuntimeError("a trial must end before the one in which it was begun")
        self.core.kernel.groups().keep_last()
        self.marks.pop_back()
        self.starts.pop()
        if self.marks.empty():
            self.changes.clear()

    def copy(self):
        """An independent scheduler in the same state, and its groups."""
        cdef NamedGroups other = NamedGroups.__new__(NamedGroups, self.core)
        self.sort()
        other.core = self.core.copy()
        other.live.update(self.live)
        other.named.update(self.named)
        other.next_serial = self.next_serial
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
