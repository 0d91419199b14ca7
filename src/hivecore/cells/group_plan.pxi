"""Plans of the group scheduler: C++ values, of which Python lists are made when they are looked at."""

cdef tuple OUTCOMES = ("bind", "preempt", "wait")
cdef tuple REASONS = ("", "capacity", "fragmented", "mapping", "search limit", "policy")


cdef list plain_list(const vector[int32_t]& values):
    cdef size_t i
    return [values[i] for i in range(values.size())]


cdef list pods_of(const Placed* leaves, size_t many, int32_t pods):
    """The leaves of each pod."""
    cdef list result = []
    cdef list pod = []
    cdef int32_t at = 0
    cdef size_t i
    for i in range(many):
        while at < leaves[i].pod:
            result.append(pod)
            pod = []
            at += 1
        pod.append(leaves[i].leaf)
    while at < pods:
        result.append(pod)
        pod = []
        at += 1
    return result


cdef list virtual_of(const Placed* leaves, size_t many, int32_t pods):
    """The virtual leaves of each pod as (pool, leaf)."""
    cdef list result = []
    cdef list pod = []
    cdef int32_t at = 0
    cdef size_t i
    for i in range(many):
        while at < leaves[i].pod:
            result.append(pod)
            pod = []
            at += 1
        pod.append((leaves[i].held.pool, leaves[i].held.leaf))
    while at < pods:
        result.append(pod)
        pod = []
        at += 1
    return result


@cython.final
@cython.freelist(8)
cdef class Plan:
    """What `GroupScheduler.schedule` answers; all but the first two is empty when it is to wait."""

    cdef KernelPlan plan

    @property
    def outcome(self):
        """"bind", "preempt" or "wait"."""
        return OUTCOMES[<Py_ssize_t> self.plan.outcome]

    @property
    def reason(self):
        """Why it is to wait: "capacity", "fragmented", "mapping", "search limit" or "policy"; else ""."""
        return REASONS[<Py_ssize_t> self.plan.reason]

    @property
    def vc(self):
        """The tenant that asked."""
        return self.plan.vc

    @property
    def priority(self):
        """The priority asked for."""
        return self.plan.priority

    @property
    def pods(self):
        """The leaves of each pod, ascending."""
        return pods_of(self.plan.leaves.data(), self.plan.leaves.size(), self.plan.pods)

    @property
    def virtual(self):
        """Per leaf (pool, leaf of the pool); None for opportunistic work."""
        if self.plan.priority < 0 or self.plan.outcome == PlanOutcome.wait:
            return None
        return virtual_of(self.plan.leaves.data(), self.plan.leaves.size(), self.plan.pods)

    @property
    def is_harmless(self):
        """Whether it takes nothing from other groups."""
        return (
            self.plan.victims.empty() and self.plan.cancels.empty() and self.plan.downgrades.empty()
        )

    @property
    def victims(self):
        """The groups that use planned leaves, by sequence."""
        return plain_list(self.plan.victims)

    @property
    def cancels(self):
        """The preempting groups that reserve planned leaves, by sequence."""
        return plain_list(self.plan.cancels)

    @property
    def downgrades(self):
        """The groups that are to lose their virtual leaves, by sequence."""
        return plain_list(self.plan.downgrades)

    @property
    def stamps(self):
        """The sequence numbers of the downgrades, then of the cancels."""
        cdef size_t i
        return tuple([self.plan.stamps[i] for i in range(self.plan.stamps.size())])
