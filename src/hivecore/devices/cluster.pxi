"""The devices of a cluster and their owners, by numbers."""

ctypedef span[const int32_t] Numbers


cdef extern from "devices/cluster.hpp" namespace "hivecore::devices" nogil:
    cdef cppclass VisibleDevices "hivecore::devices::Visible":
        WideMask& operator[](size_t) noexcept

    cdef cppclass AnswerColumns:
        int8_t* codes
        int8_t* types
        uint8_t* resolvable
        int64_t* scores

    cdef cppclass DrawRecord "hivecore::devices::Draw":
        uint64_t seed
        uint64_t number

    cdef cppclass TaskRecord "hivecore::devices::Task":
        int64_t share
        bool_t is_percent
        int count
        int64_t cpu
        Labels models
        int64_t weight

    cdef cppclass WorthRecord "hivecore::devices::Worth":
        int preferred
        int64_t score

    cdef cppclass SightRecord "hivecore::devices::DeviceCluster::Sight":
        const VisibleDevices* visible
        Numbers without
        bool_t is_idle
        span[const ChargeRecord] designated

    cdef cppclass ClusterKernel "hivecore::devices::DeviceCluster":
        ClusterKernel() except +
        ClusterKernel(const ClusterKernel&) except +
        int32_t add_shape(const DeviceShape&) except +
        vector[int32_t] drop_unused_shapes() except +
        bool_t has_shape(int32_t) noexcept
        void set_node(int32_t, int32_t, const VisibleDevices&) except +
        int32_t nodes() noexcept
        VisibleDevices healthy(int32_t) except +
        Numbers owners(int32_t) noexcept
        bool_t is_free(int32_t, span[const ChargeRecord], bool_t) except +
        int32_t charge(int32_t, vector[ChargeRecord]) except +
        void refund(int32_t) except +
        void recharge(int32_t, vector[ChargeRecord]) except +
        void mark() except +
        size_t marks() noexcept
        void rewind() except +
        void keep() except +
        bool_t is_owner(int32_t) noexcept
        int32_t node_of(int32_t) noexcept
        const vector[ChargeRecord]& charges_of(int32_t) noexcept
        void answer(
            QueryKernel&, PolicyNumber, const int64_t*, int64_t, const AnswerColumns&
        ) except +
        int32_t best(QueryKernel&, PolicyNumber) except +
        int32_t best_of(QueryKernel&, PolicyNumber, Values) except +
        void capacity(
            QueryKernel&, PolicyNumber, const int64_t*, int64_t, int32_t, QueryKernel*, int32_t,
            int32_t*
        ) except +
        int32_t random(QueryKernel&, DrawRecord, Values) except +
        vector[ChargeRecord] choose(
            QueryKernel&, PolicyNumber, int32_t, DrawRecord, bool_t&
        ) except +
        bool_t set_mix(vector[TaskRecord]) except +
        int64_t fragmentation(int32_t) except +
        int64_t most_memory() noexcept
        VerdictRecord examine(
            QueryKernel&, PolicyNumber, int32_t, const SightRecord&, vector[ChargeRecord]*, bool_t*
        ) except +
        VerdictRecord through(
            QueryKernel&, PolicyNumber, int32_t, uint32_t, DrawRecord, vector[ChargeRecord]&,
            bool_t&, WorthRecord&
        ) except +
        const ChosenRecord& choose_of(
            QueryKernel&, PolicyNumber, int32_t, const VisibleDevices*
        ) except +
        bool_t is_possible(QueryKernel&, const int64_t*, int64_t) except +
        string audit() except +
        uint64_t bytes() noexcept
        size_t states() noexcept

    enum:
        MOST_NODES "hivecore::devices::DeviceCluster::kMostNodes"


cdef extern from *:
    """
    #include "devices/cluster.hpp"

    static std::span<const hivecore::devices::Charge> as_span(
        const std::vector<hivecore::devices::Charge>& charges) {
        return charges;
    }
    """
    span[const ChargeRecord] as_span(const vector[ChargeRecord]&) noexcept nogil


cdef enum:
    POLICIES = 9
    RANDOM = 7
    FGD = 8
    LONG_LIST = 256  # nodes; more take longer than 20 microseconds


cdef DrawRecord as_draw(object seed, object number) except *:
    cdef DrawRecord draw
    draw.seed = <uint64_t> seed
    draw.number = <uint64_t> number
    return draw


cdef TaskRecord as_task(object value) except *:
    cdef TaskRecord task
    share, is_percent, count, cpu, models, weight = value
    task.share = within(share, 0, MOST_AMOUNT)
    task.is_percent = is_percent
    task.count = <int> within(count, 0, MOST_DEVICES)
    task.cpu = within(cpu, 0, MOST_AMOUNT)
    task.models = as_label_numbers(sorted(models))
    task.weight = within(weight, 0, 2**31 - 1)
    return task


cdef PolicyNumber as_policy(object policy) except *:
    return <PolicyNumber> <int> within(policy, 0, POLICIES - 1)


cdef object describe_charges(const vector[ChargeRecord]& charges):
    """A (type, minor, amounts, function or -1, exclusive, template or -1) for each."""
    cdef size_t i
    cdef int a
    records = []
    for i in range(charges.size()):
        amounts = tuple([charges[i].amounts[a] for a in range(AMOUNTS)])
        records.append(
            (
                <int> charges[i].type,
                charges[i].minor,
                amounts,
                charges[i].function,
                <int> charges[i].exclusive,
                charges[i].template_name,
            )
        )
    return records


cdef ChargeRecord as_charge(object value) except *:
    cdef ChargeRecord charge
    type_, minor, amounts, function, exclusive, template = value
    charge.type = <DeviceType> <int> within(type_, 0, TYPES - 1)
    charge.minor = <int32_t> within(minor, 0, 2**31 - 1)
    fill_amounts(&charge.amounts[0], amounts)
    charge.function = <int32_t> within(function, -1, 2**31 - 1)
    charge.exclusive = <ExclusiveNumber> <int> within(exclusive, 0, 2)
    charge.template_name = <int32_t> within(template, -1, 2**31 - 1)
    return charge


cdef vector[ChargeRecord] as_charges(object values) except *:
    cdef vector[ChargeRecord] charges
    for value in values:
        charges.push_back(as_charge(value))
    return charges


@cython.final
cdef class Plan:
    """Plan(node, charges, idle)\n--\n\nWhat an owner would get on a node."""

    cdef readonly int32_t node
    cdef bool_t is_idle
    cdef vector[ChargeRecord] charged
    cdef SharedMinors shared  # by plans with the same charges; None: there are no others

    # `as_plan` is faster without.
    def __init__(self, node, charges, idle):
        self.node = <int32_t> within(node, 0, MOST_NODES - 1)
        self.charged = as_charges(charges)
        self.is_idle = as_flag(idle, "idle")

    @property
    def idle(self):
        """Whether its devices must not be in use."""
        return bool(self.is_idle)

    @property
    def charges(self):
        """A (type, minor, amounts, function or -1, exclusive, template or -1) for each device."""
        return describe_charges(self.charged)

    def minors(self, tuple types not None):
        """A (name, minors, ascending) for each type, in the order of its first charge.

        :param types: the name of each type, always the same.
        """
        cdef size_t i
        cdef int type_
        cdef int last = -1
        cdef list of = None
        cdef dict by_type = {}
        if self.shared is not None and self.shared.minors is not None:
            return self.shared.minors
        for i in range(self.charged.size()):
            type_ = <int> self.charged[i].type
            if type_ != last:
                of = by_type.setdefault(types[type_], [])
                last = type_
            of.append(self.charged[i].minor)
        for of in by_type.values():
            of.sort()
        minors = tuple([(name, tuple(of)) for name, of in by_type.items()])
        if self.shared is not None:
            self.shared.minors = minors
        return minors


cdef Plan as_plan(int32_t node, vector[ChargeRecord]& charges, bool_t idle):
    cdef Plan plan = Plan.__new__(Plan)
    plan.node = node
    plan.is_idle = idle
    plan.charged.swap(charges)
    return plan


@cython.final
cdef class Choice:
    """Choice(masks)\n--\n\nThe only devices to use, by type: the bits of an int for each."""

    cdef VisibleDevices masks

    def __cinit__(self, masks):
        cdef int i
        for i in range(TYPES):
            (&self.masks[i])[0] = as_mask(masks[i])


cdef bint are_ints(object values):
    """Whether it is a tuple of plain ints."""
    cdef int i
    if type(values) is not tuple:
        return False
    for i in range(len(<tuple> values)):
        if type((<tuple> values)[i]) is not int:
            return False
    return True


cdef cppclass TakenRecord:
    """What a new owner was given."""
    int32_t owner
    int32_t node
    uint64_t choice
    bool_t idle


cdef dict as_new_owners(tuple owners, dict held):
    """Their names, which are checked."""
    cdef dict names = {}
    for name in owners:
        if type(name) is not str or not name:
            name = as_name(name, "owners")
        if name in names or name in held:
            raise ValueError("owners: one has devices already, or is named twice")
        names[name] = None
    return names


cdef int book_all(book, dict names, const vector[TakenRecord]& taken, priority) except -1:
    """See `hivecore.devices._owners.Owners.book`."""
    cdef size_t at = 0
    cdef dict numbers = book.numbers, by_number = book.names
    undo = book.undo
    if undo.is_on:
        forget, add = book._forget, undo.add
        for name in names:
            add((forget, name, taken[at].owner))
            at += 1
        at = 0
    for name in names:
        owner = taken[at].owner
        numbers[name] = owner
        by_number[owner] = name
        if priority:
            book.priorities[name] = priority
        at += 1
    return 0


@cython.final
cdef class DeviceKernel(KernelObject):
    """DeviceKernel()\n--\n\nThe devices of numbered nodes, and what numbered owners have of them.

    `hivecore.devices.DeviceCluster` is this with names. A GPU of one unit, and an owner:

    >>> kernel = DeviceKernel()
    >>> gpu = (0, 0, (100,), -1, -1, -1, (), (), ())
    >>> kernel.set_node(0, kernel.add_shape([gpu], (), False, 0, 0, None), (1, 0, 0, 0))
    >>> query = Query([(0, 1, False, (60,), (), None, 0, 4, -1, False)], (), False, 0, -1, 0, ())
    >>> plan = kernel.schedule(query, 0)
    >>> plan.node, plan.charges
    (0, [(0, 0, (60, 0, 0, 0, 0, 0), -1, 0, -1)])
    >>> kernel.commit(plan), kernel.schedule(query, 0)
    (0, None)
    """

    cdef ClusterKernel* kernel
    cdef int32_t shape_count

    def __cinit__(self):
        self.kernel = new ClusterKernel()
        self.shape_count = 0

    def __dealloc__(self):
        del self.kernel

    cdef int32_t as_node(self, object node) except -1:
        return <int32_t> within(node, 0, self.kernel.nodes() - 1)

    cdef int32_t as_owner(self, object owner) except -1:
        cdef int32_t number = <int32_t> within(owner, 0, 2**31 - 1)
        if not self.kernel.is_owner(number):
            raise KeyError(number)
        return number

    cdef int use(self, Query query) except -1:
        """A query's answers are of one kernel."""
        if query.core is None:
            query.core = self.identity
        elif query.core is not self.identity:
            raise ValueError("query is another kernel's")
        return 0

    cdef object identity  # another one when queries have to be made again

    def __init__(self):
        self.identity = object()

    # --- what there is

    def add_shape(self, devices, partitions, honor, isolation, model, sharing, links=None):
        """The number of an inventory that nodes may have.

        :param sharing: how its GPUs may be shared, see `as_share_rules`; None: in any way.
        :param links: how many links its GPUs have, see `as_link_counts`.
        """
        cdef Guard guard
        cdef int64_t gpus = 0
        cdef vector[DeviceRecord] records
        cdef vector[PartitionRow] rows
        for device in devices:
            records.push_back(as_record(device))
            gpus += <int64_t> <int> records.back().type == 0
            if records.size() > TYPES * MOST_DEVICES:
                raise ValueError("too many devices")
        for row in partitions:
            rows.push_back(as_partition_row(row))
        cdef bool_t is_honored = as_flag(honor, "honor")
        cdef ShareRules rules = as_share_rules(sharing)
        cdef LinkCounts counts = as_link_counts(links, gpus)
        cdef int32_t provider = <int32_t> within(isolation, 0, 2**31 - 1)
        cdef int32_t kind = <int32_t> within(model, 0, 2**31 - 1)
        guard.lock(self.mutex)
        cdef unique_ptr[DeviceShape] shape = make_unique[DeviceShape](
            records, rows, is_honored, provider, kind, rules, counts
        )
        cdef int32_t number = self.kernel.add_shape(shape.get()[0])
        self.shape_count = max(self.shape_count, number + 1)
        return number

    def drop_unused_shapes(self):
        """Forget the shapes that no node has; returns their numbers, none while there are marks.
        Queries are to be made again."""
        cdef Guard guard
        cdef vector[int32_t] dropped
        cdef size_t i
        identity = object()
        guard.lock(self.mutex)
        dropped = self.kernel.drop_unused_shapes()
        self.identity = identity
        return [dropped[i] for i in range(dropped.size())]

    def set_node(self, node, shape, healthy):
        """Give a node an inventory (-1: none) and the masks of its healthy devices, by type."""
        cdef Guard guard
        cdef VisibleDevices masks
        cdef int32_t number = <int32_t> within(node, 0, MOST_NODES - 1)
        cdef int32_t form = <int32_t> within(shape, -1, self.shape_count - 1)
        cdef int i
        for i in range(TYPES):
            (&masks[i])[0] = as_mask(healthy[i])
        guard.lock(self.mutex)
        if form >= 0 and not self.kernel.has_shape(form):
            raise ValueError(f"shape={form}: was dropped")
        self.kernel.set_node(number, form, masks)

    @property
    def nodes(self):
        """One more than the largest number of a node."""
        return self.kernel.nodes()

    @property
    def states(self):
        """How many different states nodes are in, or would be in without their owners."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.states()

    # --- owners

    def commit(self, Plan plan not None):
        """Number of the new owner; -1: the devices are not free any more."""
        cdef Guard guard
        guard.lock(self.mutex)
        if plan.node >= self.kernel.nodes():
            return -1
        if not self.kernel.is_free(plan.node, as_span(plan.charged), plan.is_idle):
            return -1
        return self.kernel.charge(plan.node, plan.charged)

    def take(
        self, Query query not None, policy, request, tuple owners not None,
        tuple places not None, cluster, decision
    ):
        """Choose and charge devices for pods that are alike in turn, for all or for none.

        :param owners: the name of each pod.
        :param places: the node and the only GPUs of each.
        :param cluster: has ``_nodes`` and ``_owners``, and books the pods there.
        :param decision: their class, `DeviceDecision`.
        :returns: a list of the decisions; or the name, node, choice and code of the first pod that
            gets nothing.
        """
        cdef Guard guard
        cdef PolicyNumber how = as_policy(policy)
        cdef vector[TakenRecord] taken
        cdef vector[int32_t] numbers
        cdef const ChosenRecord* chosen
        cdef int code = 0
        cdef dict names = as_new_owners(owners, cluster._owners.numbers)
        cdef list choices = []
        cdef Choice choice
        cdef Py_ssize_t at = 0
        nodes = cluster._nodes
        cdef dict by_name = nodes.by_name, seen = {}
        cdef list inventories = nodes.inventories
        inventory = None
        if len(owners) != len(places):
            raise ValueError("places: must be a node and GPUs for each owner")
        for place in places:
            if type(place) is not tuple:
                place = as_tuple(place, "places")
            if len(<tuple> place) != 2:
                raise ValueError("places: must be a node and GPUs for each owner")
            node, gpus = place
            number = by_name.get(node) if type(node) is str else None
            if number is None:
                number = nodes.number(node)
            if inventory is None or inventories[number] is not inventory:
                inventory, seen = nodes.choices_of(number)
            choice = seen.get(gpus) if are_ints(gpus) else None
            if choice is None:
                choice = nodes.choice(number, gpus)
            numbers.push_back(self.as_node(number))
            choices.append(choice)
        taken.reserve(len(choices))
        guard.lock(self.mutex)
        self.use(query)
        try:
            for at in range(len(choices)):
                choice = choices[at]
                chosen = &self.kernel.choose_of(query.kernel[0], how, numbers[at], &choice.masks)
                code = <int> chosen.verdict.code
                if code != 0:
                    break
                self.charge_chosen(numbers[at], chosen, taken)
            else:
                return self.booked(query, request, names, taken, cluster, decision, False)
        except BaseException:
            self.refund_all(taken)
            raise
        self.refund_all(taken)
        return owners[at], numbers[at], choices[at], code

    def take_best(
        self, Query query not None, policy, request, tuple owners not None, nodes, cluster, decision
    ):
        """The same, each on the best of some nodes; not by "random", nor by "fgd".

        :param nodes: their numbers; None: all.
        :returns: a list of the decisions; or, if a pod gets nothing, a tuple of the numbers of the
            pods before it, which are charged and not booked.
        """
        cdef Guard guard
        cdef PolicyNumber how = as_policy(policy)
        cdef dict names = as_new_owners(owners, cluster._owners.numbers)
        cdef size_t pods = len(owners)
        cdef vector[TakenRecord] taken
        cdef const ChosenRecord* chosen
        cdef cnp.ndarray numbers = None
        cdef bool_t is_anywhere = nodes is None
        cdef Values allowed
        cdef int32_t node
        cdef size_t i
        if <int> how == RANDOM or <int> how == FGD:
            raise ValueError("policy: goes by more than states")
        taken.reserve(pods)
        if nodes is not None:
            numbers = as_int64_array(nodes, "nodes", 0)
        guard.lock(self.mutex)
        self.use(query)
        if numbers is not None:
            check_range(numbers, 0, self.kernel.nodes() - 1, "nodes", 0)
            allowed = as_values(numbers)
        guard.keep()
        try:
            with nogil:
                while taken.size() < pods:
                    if is_anywhere:
                        node = self.kernel.best(query.kernel[0], how)
                    else:
                        node = self.kernel.best_of(query.kernel[0], how, allowed)
                    if node < 0:
                        break
                    chosen = &self.kernel.choose_of(query.kernel[0], how, node, NULL)
                    self.charge_chosen(node, chosen, taken)
            if taken.size() == pods:
                return self.booked(query, request, names, taken, cluster, decision, True)
            return tuple([taken[i].owner for i in range(taken.size())])
        except BaseException:
            self.refund_all(taken)
            raise

    cdef int charge_chosen(
        self, int32_t node, const ChosenRecord* chosen, vector[TakenRecord]& taken
    ) except -1 nogil:
        """Charge a new owner what was chosen for it; there is space for it in the list."""
        cdef TakenRecord given
        given.node, given.idle, given.choice = node, chosen.idle, chosen.number
        given.owner = self.kernel.charge(node, chosen.charges)
        taken.push_back(given)
        return 0

    cdef list booked(
        self, Query query, request, dict names, const vector[TakenRecord]& taken, cluster, decision,
        bint of_all
    ):
        """Book owners that were charged, and make their decisions; an error books none of them."""
        cdef list bound = []
        cdef Plan plan
        cdef vector[ChargeRecord] charges
        cdef size_t at = 0
        nodes = cluster._nodes
        cdef list node_names = nodes.names, marks = nodes.marks, inventories = nodes.inventories
        for name in names:
            # A new object may start a collection, whose finalizers may ask the query, too.
            charges = self.kernel.charges_of(taken[at].owner)
            if query.shared is None or query.shared_number != taken[at].choice:
                query.shared = SharedMinors.__new__(SharedMinors)
                query.shared_number = taken[at].choice
            plan = as_plan(taken[at].node, charges, taken[at].idle)
            plan.shared = query.shared
            bound.append(
                decision(
                    (request, name), node_names[plan.node], (), plan, cluster,
                    inventories[plan.node], None, (), "", of_all, marks[plan.node],
                )
            )
            at += 1
        book_all(cluster._owners, names, taken, request.priority)
        return bound

    cdef int refund_all(self, const vector[TakenRecord]& taken) except -1:
        """The last first."""
        cdef size_t last
        for last in range(taken.size(), 0, -1):
            self.kernel.refund(taken[last - 1].owner)
        return 0

    def refund_named(self, dict names not None, book):
        """Take back what owners have that use no reservations, and forget them; all or none.

        :param book: the `hivecore.devices._owners.Owners`.
        """
        cdef Guard guard
        cdef vector[int32_t] owners
        cdef size_t at = 0
        cdef dict numbers = book.numbers, by_number = book.names, priorities = book.priorities
        cdef int32_t owner
        undo = book.undo
        cdef bint is_on = undo.is_on
        guard.lock(self.mutex)
        for name in names:
            number = numbers.get(name)
            owners.push_back(self.as_owner(book.number(name) if number is None else number))
        for name in names:
            owner = owners[at]
            if is_on:
                undo.add((book.book, name, owner, priorities.get(name, 0)))
            del numbers[name], by_number[owner]
            if priorities:
                priorities.pop(name, None)
            self.kernel.refund(owner)
            at += 1

    def charge(self, node, charges):
        """Number of a new owner, whether or not there is so much."""
        cdef Guard guard
        cdef vector[ChargeRecord] given = as_charges(charges)
        guard.lock(self.mutex)
        return self.kernel.charge(self.as_node(node), given)

    def refund(self, owner):
        """Take back what an owner has."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.refund(self.as_owner(owner))

    def recharge(self, owner, charges):
        """From now on an owner has this instead, whether or not there is so much."""
        cdef Guard guard
        cdef vector[ChargeRecord] given = as_charges(charges)
        guard.lock(self.mutex)
        self.kernel.recharge(self.as_owner(owner), given)

    def node_of(self, owner):
        """The node that an owner is on."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.node_of(self.as_owner(owner))

    def charges_of(self, owner):
        """What an owner has, as `Plan.charges`."""
        cdef Guard guard
        guard.lock(self.mutex)
        return describe_charges(self.kernel.charges_of(self.as_owner(owner)))

    def owners(self, node):
        """The owners on a node, ascending."""
        cdef Guard guard
        cdef Numbers numbers
        cdef size_t i
        guard.lock(self.mutex)
        numbers = self.kernel.owners(self.as_node(node))
        return sorted([numbers[i] for i in range(numbers.size())])

    # --- trials

    def mark(self):
        """The number of this mark, for `rewind` or `keep`."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.mark()
        return self.kernel.marks()

    def rewind(self, number):
        """End a mark, and undo what has happened to nodes and owners since.

        :raises RuntimeError: it is not the last one that was set.
        """
        cdef Guard guard
        guard.lock(self.mutex)
        self.check_last(number)
        self.kernel.rewind()

    def keep(self, number):
        """End a mark; what was done since is kept, see `rewind`."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.check_last(number)
        self.kernel.keep()

    cdef int check_last(self, object number) except -1:
        if number == 0 or number != self.kernel.marks():
            raise RuntimeError("a trial must end before the one in which it was begun")
        return 0

    # --- what policies go by

    def set_mix(self, tasks):
        """Which pods come, for fgd: (share, is percent, GPUs, CPU, models, weight) of each class."""
        cdef Guard guard
        cdef vector[TaskRecord] mix
        for task in tasks:
            mix.push_back(as_task(task))
        guard.lock(self.mutex)
        return bool(self.kernel.set_mix(mix))

    def fragmentation(self, node):
        """Of a node, in units of memory times weight."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.fragmentation(self.as_node(node))

    @property
    def most_memory(self):
        """The most that a node's GPUs have had together."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.most_memory()

    # --- decisions

    def filter(self, Query query not None, policy, nodes=None):
        """For each node the code, the type that fails, whether owners' ends may help, the score."""
        cdef Guard guard
        cdef PolicyNumber number = as_policy(policy)
        cdef const int64_t* numbers = NULL
        cdef cnp.npy_intp count
        cdef cnp.ndarray listed = None
        if nodes is not None:
            listed = as_int64_array(nodes, "nodes", 0)
        guard.lock(self.mutex)
        self.use(query)
        count = self.kernel.nodes()
        if listed is not None:
            check_range(listed, 0, count - 1, "nodes", 0)
            numbers = <const int64_t*> cnp.PyArray_DATA(listed)
            count = cnp.PyArray_SIZE(listed)
        cdef cnp.ndarray codes = cnp.PyArray_SimpleNew(1, &count, cnp.NPY_INT8)
        cdef cnp.ndarray types = cnp.PyArray_SimpleNew(1, &count, cnp.NPY_INT8)
        cdef cnp.ndarray resolvable = new_bool_array(count)
        cdef cnp.ndarray scores = cnp.PyArray_SimpleNew(1, &count, cnp.NPY_INT64)
        cdef AnswerColumns columns
        columns.codes = <int8_t*> cnp.PyArray_DATA(codes)
        columns.types = <int8_t*> cnp.PyArray_DATA(types)
        columns.resolvable = <uint8_t*> cnp.PyArray_DATA(resolvable)
        columns.scores = <int64_t*> cnp.PyArray_DATA(scores)
        guard.keep()
        with nogil:
            self.kernel.answer(query.kernel[0], number, numbers, count, columns)
        return codes, types, resolvable, scores

    def capacity(self, Query query not None, policy, most, nodes=None, Query first=None, before=0):
        """For each node how many such pods it can hold one after the other, `most` at the most.

        :param first: the query of other pods, of which `before` come first; -1: they do not fit.
        """
        cdef Guard guard
        cdef PolicyNumber number = as_policy(policy)
        cdef int32_t limit = <int32_t> within(most, 0, 2**31 - 1)
        cdef int32_t others = <int32_t> within(before, 0, 2**31 - 1)
        cdef QueryKernel* of_others = NULL
        cdef const int64_t* numbers = NULL
        cdef cnp.npy_intp count
        cdef cnp.ndarray listed = None
        if nodes is not None:
            listed = as_int64_array(nodes, "nodes", 0)
        guard.lock(self.mutex)
        self.use(query)
        count = self.kernel.nodes()
        if listed is not None:
            check_range(listed, 0, count - 1, "nodes", 0)
            numbers = <const int64_t*> cnp.PyArray_DATA(listed)
            count = cnp.PyArray_SIZE(listed)
        if first is not None:
            self.use(first)
            of_others = first.kernel
        cdef cnp.ndarray pods = cnp.PyArray_SimpleNew(1, &count, cnp.NPY_INT32)
        cdef int32_t* into = <int32_t*> cnp.PyArray_DATA(pods)
        guard.keep()
        with nogil:
            self.kernel.capacity(
                query.kernel[0], number, numbers, count, limit, of_others, others, into
            )
        return pods

    def schedule(self, Query query not None, policy, nodes=None, seed=0, number=0):
        """The plan for the best node, or None.

        :param seed: of "random", as the number of the request.
        """
        cdef Guard guard
        cdef PolicyNumber how = as_policy(policy)
        cdef cnp.ndarray listed = None
        cdef DrawRecord draw = as_draw(seed, number)
        cdef int32_t node
        cdef bool_t idle = False
        cdef vector[ChargeRecord] charges
        if nodes is not None:
            listed = as_int64_array(nodes, "nodes", 0)
        guard.lock(self.mutex)
        self.use(query)
        if listed is not None:
            check_range(listed, 0, self.kernel.nodes() - 1, "nodes", 0)
            if cnp.PyArray_SIZE(listed) == 0:
                return None
        if <int> how == RANDOM:
            node = self.kernel.random(
                query.kernel[0], draw, Values() if listed is None else as_values(listed)
            )
        elif listed is not None:
            node = self.kernel.best_of(query.kernel[0], how, as_values(listed))
        else:
            guard.keep()
            with nogil:
                node = self.kernel.best(query.kernel[0], how)
        if node < 0:
            return None
        charges = self.kernel.choose(query.kernel[0], how, node, draw, idle)
        return as_plan(node, charges, idle)

    def examine(
        self, Query query not None, policy, node, visible=None, without=(), plan=True,
        designated=(), idle=False
    ):
        """(code, type, plan or None) for one node, on some NUMA nodes, without some owners.

        :param visible: a `Choice`, or masks of the devices to use, by type; None: all.
        :param plan: whether to make one if it fits; to choose takes longer than to look.
        :param designated: of the types in it the only devices, and the most of each; as `Plan.charges`.
        :param idle: as if all owners had left, and all devices were healthy.
        """
        cdef Guard guard
        cdef PolicyNumber how = as_policy(policy)
        cdef Choice chosen
        cdef SightRecord sight
        cdef vector[int32_t] gone
        cdef vector[ChargeRecord] charges
        cdef vector[ChargeRecord]* into = NULL
        cdef bool_t alone = False
        cdef VerdictRecord verdict
        cdef int i
        if visible is not None:
            chosen = visible if type(visible) is Choice else Choice.__new__(Choice, visible)
            sight.visible = &chosen.masks
        if as_flag(plan, "plan"):
            into = &charges
        cdef vector[ChargeRecord] named = as_charges(designated)
        for owner in without:
            gone.push_back(<int32_t> within(owner, 0, 2**31 - 1))
        sight.without = Numbers(gone.data(), gone.size())
        sight.is_idle = as_flag(idle, "idle")
        sight.designated = as_span(named)
        guard.lock(self.mutex)
        self.use(query)
        verdict = self.kernel.examine(
            query.kernel[0], how, self.as_node(node), sight, into, &alone
        )
        if <int> verdict.code != 0 or into == NULL:
            return <int> verdict.code, <int> verdict.type, None
        return 0, 0, as_plan(self.as_node(node), charges, alone)

    def through(self, Query query not None, policy, owner, confined, seed=0, number=0):
        """(code, plan or None, needs in preferred scopes, score): on an owner's node as if it had
        left, of what it has first.

        :param confined: the types, as bits, of which nothing else may be had.
        :param seed: of "random", as the number of the request.
        """
        cdef Guard guard
        cdef PolicyNumber how = as_policy(policy)
        cdef DrawRecord draw = as_draw(seed, number)
        cdef uint32_t types = <uint32_t> within(confined, 0, (1 << TYPES) - 1)
        cdef vector[ChargeRecord] charges
        cdef bool_t idle = False
        cdef VerdictRecord verdict
        cdef WorthRecord worth
        cdef int32_t holder
        guard.lock(self.mutex)
        self.use(query)
        holder = self.as_owner(owner)
        verdict = self.kernel.through(
            query.kernel[0], how, holder, types, draw, charges, idle, worth
        )
        if <int> verdict.code != 0:
            return <int> verdict.code, None, 0, 0
        return 0, as_plan(self.kernel.node_of(holder), charges, idle), worth.preferred, worth.score

    def is_possible(self, Query query not None, nodes=None):
        """Whether one of these nodes, or of all, would serve it idle and healthy."""
        cdef Guard guard
        cdef const int64_t* numbers = NULL
        cdef cnp.npy_intp count
        cdef cnp.ndarray listed = None
        if nodes is not None:
            listed = as_int64_array(nodes, "nodes", 0)
        guard.lock(self.mutex)
        self.use(query)
        count = self.kernel.nodes()
        if listed is not None:
            check_range(listed, 0, count - 1, "nodes", 0)
            numbers = <const int64_t*> cnp.PyArray_DATA(listed)
            count = cnp.PyArray_SIZE(listed)
        return bool(self.kernel.is_possible(query.kernel[0], numbers, count))

    # --- the state as a whole

    def copy(self):
        """An independent equal, without marks; queries are asked again."""
        cdef Guard guard
        cdef DeviceKernel other = DeviceKernel()
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        while other.kernel.marks() > 0:
            other.kernel.keep()
        other.shape_count = self.shape_count
        return other

    cdef string find_fault(self) except * nogil:
        return self.kernel.audit()

    cdef uint64_t kernel_bytes(self) noexcept:
        return self.kernel.bytes()
