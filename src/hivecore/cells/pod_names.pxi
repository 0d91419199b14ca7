"""Descriptions of pods: the names of their nodes and levels, and the numbers of their GPUs."""


cdef extern from "<algorithm>" namespace "std" nogil:
    Iterator upper_bound[Iterator, T](Iterator, Iterator, const T&)


@cython.final
cdef class PodNames:
    """PodNames(record, chains, nodes, devices, levels, offsets, per_node, /)\n--\n\nDescribes pods.

    :param record: a subclass of tuple with the fields chain, node, devices of the node, level of
        the owned cell of each leaf, and leaves by their numbers in the chain.
    :param chains: the names of the chains.
    :param nodes: of each chain, the names of its nodes.
    :param devices: of each chain, for each node the numbers of its devices, or None: 0, 1, ...
    :param levels: the name of the level of each pool.
    :param offsets: the first leaf of each chain, and the number of all leaves.
    :param per_node: of each chain, the number of leaves of a node.
    :raises ValueError: these do not fit each other.
    """

    cdef type record
    cdef tuple chains
    cdef tuple nodes
    cdef tuple devices
    cdef tuple levels
    cdef vector[int64_t] offsets
    cdef vector[int64_t] per_node

    def __cinit__(
        self,
        type record not None,
        tuple chains not None,
        tuple nodes not None,
        tuple devices not None,
        tuple levels not None,
        offsets,
        per_node,
        /,
    ):
        cdef Py_ssize_t i
        if not issubclass(record, tuple):
            raise TypeError("record must be a subclass of tuple")
        self.record, self.chains, self.nodes = record, chains, nodes
        self.levels = levels
        self.offsets = [as_bounded(offset, "offsets", 0, INT64_MAX) for offset in offsets]
        self.per_node = [as_bounded(leaves, "per_node", 1, INT64_MAX) for leaves in per_node]
        cdef Py_ssize_t many = len(chains)
        if (
            len(nodes) != many
            or len(devices) != many
            or <Py_ssize_t> self.offsets.size() != many + 1
            or <Py_ssize_t> self.per_node.size() != many
            or self.offsets[0]
        ):
            raise ValueError("all of it must be of as many chains")
        rows = []
        for i in range(many):
            numbers = devices[i]
            rows.append(None if numbers is None else tuple([tuple(row) for row in numbers]))
            if self.offsets[i + 1] - self.offsets[i] != len(nodes[i]) * self.per_node[i]:
                raise ValueError(f"offsets: chain {i} has not as many leaves as its nodes")
            if numbers is not None and [len(row) for row in rows[i]] != [self.per_node[i]] * len(
                nodes[i]
            ):
                raise ValueError(f"devices: chain {i} has not as many as its nodes have leaves")
        self.devices = tuple(rows)

    def of_plan(self, Plan plan not None, /):
        """A record of each pod that a plan binds; empty: it is to wait.

        :raises ValueError: the plan is of a cluster with more leaves or pools.
        """
        cdef list records = []
        cdef size_t i = 0
        cdef int32_t pod
        cdef bint guaranteed = plan.plan.priority >= 0
        cdef vector[int64_t] leaves, pools
        if plan.plan.outcome == PlanOutcome.wait:
            return ()
        for pod in range(plan.plan.pods):
            leaves.clear()
            pools.clear()
            while i < plan.plan.leaves.size() and plan.plan.leaves[i].pod == pod:
                leaves.push_back(plan.plan.leaves[i].leaf)
                if guaranteed:
                    pools.push_back(plan.plan.leaves[i].held.pool)
                i += 1
            records.append(self.described(leaves, pools))
        return tuple(records)

    def places(self, Plan plan not None, /):
        """The node of each pod that a plan binds, and the numbers of its devices there.

        :raises ValueError: the plan is of a cluster with more leaves.
        """
        cdef list pods = []
        cdef list devices
        cdef size_t i = 0
        cdef size_t first
        cdef int32_t pod
        cdef int64_t leaf, at
        cdef int64_t width = 1
        cdef Py_ssize_t chain, node
        row = None
        if plan.plan.outcome == PlanOutcome.wait:
            return pods
        for pod in range(plan.plan.pods):
            devices = []
            first = i
            chain = node = -1
            while i < plan.plan.leaves.size() and plan.plan.leaves[i].pod == pod:
                leaf = plan.plan.leaves[i].leaf
                if i == first:
                    chain = self.chain_of(leaf)
                    width = self.per_node[chain]
                    node = (leaf - self.offsets[chain]) // width
                    rows = self.devices[chain]
                    row = None if rows is None else (<tuple> rows)[node]
                at = leaf - self.offsets[chain] - node * width
                if not 0 <= at < width:
                    devices.append(self.device(leaf))
                else:
                    devices.append(at if row is None else (<tuple> row)[<Py_ssize_t> at])
                i += 1
            name = "" if chain < 0 else (<tuple> self.nodes[chain])[node]
            pods.append((name, tuple(devices)))
        return pods

    def of_pod(self, leaves, pools, /):
        """The record of a pod.

        :param leaves: numbers of leaves among all chains.
        :param pools: the pool of the owned cell of each leaf, -1: none; None: none has one.
        :raises ValueError: there is no such leaf or pool, or there are not as many pools as leaves.
        """
        cdef vector[int64_t] numbers = [
            as_bounded(leaf, "leaves", 0, INT64_MAX) for leaf in leaves
        ]
        cdef vector[int64_t] owned
        if pools is not None:
            owned = [as_bounded(pool, "pools", -1, INT64_MAX) for pool in pools]
            if owned.size() != numbers.size():
                raise ValueError("pools must be as many as leaves")
        return self.described(numbers, owned)

    cdef object described(self, const vector[int64_t]& leaves, const vector[int64_t]& pools):
        """The record of the pod with these leaves and pools."""
        cdef size_t many = leaves.size()
        cdef size_t i
        cdef int64_t at, device
        if not many:
            return tuple.__new__(self.record, ("", "", (), (), ()))
        cdef Py_ssize_t chain = self.chain_of(leaves[0])
        cdef int64_t offset = self.offsets[chain]
        cdef int64_t width = self.per_node[chain]
        cdef Py_ssize_t node = (leaves[0] - offset) // width
        cdef int64_t first = offset + node * width
        cdef list devices = []
        cdef list numbers = []
        cdef list owned = []
        rows = self.devices[chain]
        row = None if rows is None else rows[node]
        for i in range(many):
            at = leaves[i] - first
            if 0 <= at < width:
                devices.append(at if row is None else (<tuple> row)[<Py_ssize_t> at])
                numbers.append(leaves[i] - offset)
            else:  # a change of the cluster has torn a recovered pod
                devices.append(self.device(leaves[i]))
                numbers.append(leaves[i] - self.offsets[self.chain_of(leaves[i])])
            if pools.empty() or pools[i] < 0:
                owned.append("")
            elif pools[i] >= len(self.levels):
                raise ValueError(f"pools: there is no pool {pools[i]}")
            else:
                owned.append(self.levels[<Py_ssize_t> pools[i]])
        return tuple.__new__(
            self.record,
            (
                self.chains[chain],
                (<tuple> self.nodes[chain])[node],
                tuple(devices),
                tuple(owned),
                tuple(numbers),
            ),
        )

    cdef Py_ssize_t chain_of(self, int64_t leaf) except -1:
        if not 0 <= leaf < self.offsets.back():
            raise ValueError(f"leaves: there is no leaf {leaf}")
        return upper_bound(self.offsets.begin(), self.offsets.end(), leaf) - self.offsets.begin() - 1

    cdef object device(self, int64_t leaf):
        """The number of a leaf on its node."""
        cdef Py_ssize_t chain = self.chain_of(leaf)
        cdef int64_t at = leaf - self.offsets[chain]
        cdef int64_t width = self.per_node[chain]
        rows = self.devices[chain]
        return at % width if rows is None else rows[at // width][at % width]
