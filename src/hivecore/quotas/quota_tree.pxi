"""Quotas, owners and decisions, by numbers."""


cdef extern from "quotas/quota_tree.hpp" namespace "hivecore::quotas" nogil:
    cdef enum FieldNumber "hivecore::quotas::Field":
        pass

    cdef enum CodeNumber "hivecore::quotas::Code":
        pass

    cdef enum OutcomeNumber "hivecore::quotas::Outcome":
        pass

    cdef cppclass OwnerRecord "hivecore::quotas::Owner":
        int32_t quota
        int32_t count
        int32_t min_count
        int32_t members
        int32_t priority
        bool_t is_preemptible
        uint64_t start

    cdef cppclass LimitsRecord "hivecore::quotas::Limits":
        Values max
        Values min
        Values weight
        bool_t lends
        bool_t scales

    cdef cppclass OptionsRecord "hivecore::quotas::Options":
        bool_t limited_by_runtime
        bool_t check_ancestors
        bool_t scale_min
        bool_t guarantee
        bool_t parity

    cdef cppclass VerdictRecord "hivecore::quotas::Verdict":
        OutcomeNumber outcome
        CodeNumber code
        bool_t borrows
        int32_t part

    cdef cppclass Ask:
        int32_t owner
        int32_t members

    cdef cppclass SharingRecord "hivecore::quotas::QuotaTree::Sharing":
        int64_t amount
        vector[int32_t] children
        vector[int64_t] request
        vector[int64_t] minimum
        vector[int64_t] weight
        vector[int64_t] runtime
        vector[uint8_t] lends
        vector[WaterFillRound] rounds

    cdef cppclass TreeKernel "hivecore::quotas::QuotaTree":
        TreeKernel(OptionsRecord) except +
        TreeKernel(const TreeKernel&) except +
        int dimensions() noexcept
        int add_dimension(uint64_t) except +
        int64_t uses(int) noexcept
        bool_t scale(int, int64_t) except +
        int32_t add_root() except +
        int32_t roots() noexcept
        void set_total(int32_t, Values, bool_t) except +
        vector[int64_t] net_total(int32_t) except +
        int32_t add_quota(int32_t, int32_t, const LimitsRecord&, bool_t) except +
        bool_t set_limits(int32_t, const LimitsRecord&) except +
        bool_t move(int32_t, int32_t, int32_t) except +
        void remove(int32_t) except +
        bool_t is_quota(int32_t) noexcept
        bool_t is_outside(int32_t) noexcept
        int32_t size() noexcept
        int32_t parent(int32_t) noexcept
        size_t children_of(int32_t, bool_t) noexcept
        int32_t owners_in(int32_t) noexcept
        span[const int32_t] running(int32_t) noexcept
        Values amounts(int32_t, FieldNumber) except +
        int64_t request(int32_t, int) noexcept
        void refresh_all() except +
        void set_scaled_min(int32_t, Values) except +
        void copy_amounts(Values, FieldNumber, int64_t*) noexcept
        vector[int64_t] room(CodeNumber, Values, Values) except +
        uint64_t moves() noexcept
        SharingRecord sharing(int32_t, int) except +
        int32_t submit(int32_t, Values, const OwnerRecord&) except +
        void release(int32_t) except +
        void evict(int32_t, bool_t) except +
        bool_t admit(int32_t, int32_t) except +
        void withdraw(int32_t) except +
        void take_back(int32_t, int32_t) except +
        bool_t is_owner(int32_t) noexcept
        const OwnerRecord& owner(int32_t) noexcept
        Values amounts_of(int32_t) noexcept
        bool_t may_borrow(int32_t) noexcept
        void forbid_borrowing(int32_t) except +
        VerdictRecord decide(span[const Ask]) except +
        VerdictRecord decide(span[const Ask], vector[int32_t]&) except +
        VerdictRecord decide_without(span[const Ask], vector[int32_t]&) except +
        vector[int32_t] revocable(int32_t) except +
        vector[int32_t] overused() except +
        void mark() except +
        void rewind() except +
        void keep() except +
        string audit() except +
        uint64_t bytes() noexcept

    enum:
        MOST_DIMENSIONS "hivecore::quotas::kMostDimensions"
        FIELDS "hivecore::quotas::kFields"


ctypedef span[const Ask] Asks


cdef enum:
    BINDS = 0
    LEAST_PRIORITY = -2147483648
    MOST_MEMBERS = 2147483647


cdef vector[int64_t] as_amounts(object values, size_t length, int64_t low) except *:
    cdef vector[int64_t] amounts
    for value in values:
        amounts.push_back(as_bounded(value, "amount", low, MOST))
    if amounts.size() != length:
        raise ValueError(f"{amounts.size()} amounts: there are {length} dimensions")
    return amounts


cdef list as_list(const vector[int32_t]& values):
    cdef size_t i
    return [values[i] for i in range(values.size())]


@cython.final
cdef class QuotaKernel(KernelObject):
    """QuotaKernel(limited_by_runtime, check_ancestors, scale_min, guarantee, parity)\n--\n\nNumbered quotas in trees, and numbered owners in them.

    `hivecore.quotas.QuotaTree` is this with names. As a parent, root r is -1 - r.

    >>> kernel = QuotaKernel(True, True, True, False, False)
    >>> kernel.add_dimension(), kernel.add_root()
    (0, 0)
    >>> kernel.set_total(0, [8], False)
    >>> quota = kernel.add_quota(-1, 0, [8], [4], [1], True, True, False)
    >>> owner = kernel.submit(quota, [2], 3, 3, 0, True)
    >>> kernel.commit([(owner, 3, 0)]), kernel.amounts(quota, 12)
    (True, [6])
    """

    cdef TreeKernel* kernel

    def __cinit__(self, limited_by_runtime, check_ancestors, scale_min, guarantee, parity):
        cdef OptionsRecord options
        options.limited_by_runtime = as_flag(limited_by_runtime, "limited_by_runtime")
        options.check_ancestors = as_flag(check_ancestors, "check_ancestors")
        options.scale_min = as_flag(scale_min, "scale_min")
        options.guarantee = as_flag(guarantee, "guarantee")
        options.parity = as_flag(parity, "parity")
        self.kernel = new TreeKernel(options)

    def __dealloc__(self):
        del self.kernel

    cdef int32_t as_quota(self, object quota) except -1:
        cdef int64_t number = as_bounded(quota, "quota", 0, MOST_MEMBERS)
        if not self.kernel.is_quota(<int32_t> number):
            raise KeyError(number)
        return <int32_t> number

    cdef int32_t as_owner(self, object owner) except -1:
        cdef int64_t number = as_bounded(owner, "owner", 0, MOST_MEMBERS)
        if not self.kernel.is_owner(<int32_t> number):
            raise KeyError(number)
        return <int32_t> number

    cdef int32_t as_root(self, object root) except -1:
        return <int32_t> as_bounded(root, "root", 0, self.kernel.roots() - 1)

    cdef int64_t as_parent(self, object parent) except? -1 :
        cdef int64_t number = as_bounded(parent, "parent", -<int64_t> self.kernel.roots(), MOST_MEMBERS)
        if number >= 0 and not self.kernel.is_quota(<int32_t> number):
            raise KeyError(number)
        if number >= 0 and self.kernel.is_outside(<int32_t> number):
            raise ValueError(f"parent={number}: is outside")
        return number

    # --- dimensions and roots

    @property
    def dimensions(self):
        """How many there are."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.dimensions()

    def add_dimension(self, kept=()):
        """A dimension that is not in use, none of the kept ones; None: there are too many."""
        cdef Guard guard
        cdef uint64_t mask = 0
        for dimension in kept:
            mask |= <uint64_t> 1 << as_bounded(dimension, "kept", 0, MOST_DIMENSIONS - 1)
        guard.lock(self.mutex)
        number = self.kernel.add_dimension(mask)
        return None if number < 0 else number

    def uses(self, dimension):
        """How many quotas, owners and totals speak of it."""
        cdef Guard guard
        cdef int64_t wanted = as_bounded(dimension, "dimension", 0, MOST_DIMENSIONS - 1)
        guard.lock(self.mutex)
        if wanted >= self.kernel.dimensions():
            raise KeyError(wanted)
        return self.kernel.uses(<int> wanted)

    def scale(self, dimension, factor):
        """Make the unit of a dimension so many times smaller; False: a sum would be too large."""
        cdef Guard guard
        cdef int64_t wanted = as_bounded(dimension, "dimension", 0, MOST_DIMENSIONS - 1)
        cdef int64_t times = as_bounded(factor, "factor", 1, MOST)
        guard.lock(self.mutex)
        if wanted >= self.kernel.dimensions():
            raise KeyError(wanted)
        return self.kernel.scale(<int> wanted, times)

    def add_root(self):
        """The number of a new tree."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.add_root()

    def set_total(self, root, total, carved):
        """What a tree has; ``carved``: it is taken off what root 0 has."""
        cdef Guard guard
        cdef int32_t number = self.as_root(root)
        cdef bool_t is_carved = as_flag(carved, "carved")
        amounts = tuple(total)
        guard.lock(self.mutex)
        cdef vector[int64_t] row = as_amounts(amounts, self.kernel.dimensions(), 0)
        self.kernel.set_total(number, Values(row.data(), row.size()), is_carved and number > 0)

    def net_total(self, root):
        """What there is for the quotas at the top."""
        cdef Guard guard
        cdef int32_t number = self.as_root(root)
        guard.lock(self.mutex)
        cdef vector[int64_t] row = self.kernel.net_total(number)
        return [row[d] for d in range(row.size())]

    # --- quotas

    def add_quota(self, parent, position, maximums, minimums, weights, lends, scales, outside):
        """Its number; None: a sum would be too large.

        :param position: among the children of its parent.
        :param maximums: by dimension, -1: it has none.
        """
        cdef Guard guard
        cdef bool_t is_outside = as_flag(outside, "outside")
        cdef LimitsRecord limits
        limits.lends = as_flag(lends, "lends")
        limits.scales = as_flag(scales, "scales")
        most, least, by = tuple(maximums), tuple(minimums), tuple(weights)
        guard.lock(self.mutex)
        cdef int32_t above = <int32_t> self.as_parent(parent)
        if is_outside and above >= 0:
            raise ValueError("outside: only at the top")
        cdef size_t length = self.kernel.dimensions()
        cdef vector[int64_t] a = as_amounts(most, length, -1)
        cdef vector[int64_t] b = as_amounts(least, length, 0)
        cdef vector[int64_t] c = as_amounts(by, length, 0)
        limits.max = Values(a.data(), a.size())
        limits.min = Values(b.data(), b.size())
        limits.weight = Values(c.data(), c.size())
        cdef int64_t place = as_bounded(
            position, "position", 0, self.kernel.children_of(above, is_outside)
        )
        number = self.kernel.add_quota(above, <int32_t> place, limits, is_outside)
        return None if number < 0 else number

    def set_limits(self, quota, maximums, minimums, weights, lends, scales):
        """False: a sum would be too large."""
        cdef Guard guard
        cdef LimitsRecord limits
        limits.lends = as_flag(lends, "lends")
        limits.scales = as_flag(scales, "scales")
        most, least, by = tuple(maximums), tuple(minimums), tuple(weights)
        guard.lock(self.mutex)
        cdef int32_t number = self.as_quota(quota)
        cdef size_t length = self.kernel.dimensions()
        cdef vector[int64_t] a = as_amounts(most, length, -1)
        cdef vector[int64_t] b = as_amounts(least, length, 0)
        cdef vector[int64_t] c = as_amounts(by, length, 0)
        limits.max = Values(a.data(), a.size())
        limits.min = Values(b.data(), b.size())
        limits.weight = Values(c.data(), c.size())
        return self.kernel.set_limits(number, limits)

    def move(self, quota, parent, position):
        """False: a sum would be too large. ``position`` counts without the quota itself."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef int32_t number = self.as_quota(quota)
        cdef int32_t above = <int32_t> self.as_parent(parent)
        cdef int32_t where = above
        if self.kernel.is_outside(number):
            raise ValueError("quota: is outside")
        while where >= 0:
            if where == number:
                raise ValueError("parent: is below the quota")
            where = self.kernel.parent(where)
        cdef int64_t most = self.kernel.children_of(above, False)
        most -= 1 if self.kernel.parent(number) == above else 0
        return self.kernel.move(
            number, above, <int32_t> as_bounded(position, "position", 0, most)
        )

    def remove(self, quota):
        """Remove a quota without children and owners."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef int32_t number = self.as_quota(quota)
        if self.kernel.owners_in(number) > 0 or self.kernel.children_of(number, False) > 0:
            raise ValueError(f"quota={number}: is not empty")
        self.kernel.remove(number)

    def owners_in(self, quota):
        """How many owners are directly in a quota."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.owners_in(self.as_quota(quota))

    def running(self, quota):
        """Those of them that run, the most important first."""
        cdef Guard guard
        cdef span[const int32_t] owners
        guard.lock(self.mutex)
        owners = self.kernel.running(self.as_quota(quota))
        return [owners[i] for i in range(owners.size())]

    def amounts(self, quota, field):
        """One field, by dimension."""
        cdef Guard guard
        cdef int64_t number = as_bounded(field, "field", 0, FIELDS - 1)
        cdef Values values
        guard.lock(self.mutex)
        values = self.kernel.amounts(self.as_quota(quota), <FieldNumber> <int> number)
        return [values[i] for i in range(values.size())]

    def request(self, quota):
        """What is asked for in all, by dimension."""
        cdef Guard guard
        cdef int d
        guard.lock(self.mutex)
        cdef int32_t number = self.as_quota(quota)
        return [self.kernel.request(number, d) for d in range(self.kernel.dimensions())]

    def set_scaled_min(self, quota, values):
        """What a saved state had, one of parity."""
        cdef Guard guard
        cdef int32_t number
        cdef vector[int64_t] row
        guard.lock(self.mutex)
        number = self.as_quota(quota)
        row = as_amounts(values, self.kernel.dimensions(), 0)
        self.kernel.set_scaled_min(number, Values(row.data(), row.size()))

    def all_amounts(self, quotas, field):
        """One field of several quotas, int64[quotas, dimensions]."""
        cdef Guard guard
        cdef int64_t wanted = as_bounded(field, "field", 0, FIELDS - 1)
        cdef cnp.ndarray numbers = as_int64_array(quotas, "quotas", 0)
        cdef const int64_t* number = <const int64_t*> cnp.PyArray_DATA(numbers)
        cdef Values wanted_quotas = as_values(numbers)
        cdef cnp.ndarray result
        cdef size_t i
        guard.lock(self.mutex)
        for i in range(wanted_quotas.size()):
            if not 0 <= number[i] <= MOST_MEMBERS or not self.kernel.is_quota(<int32_t> number[i]):
                raise KeyError(number[i])
        guard.keep()
        result = np.empty((wanted_quotas.size(), self.kernel.dimensions()), dtype=np.int64)
        cdef int64_t* to = <int64_t*> cnp.PyArray_DATA(result)
        with nogil:
            self.kernel.refresh_all()
            self.kernel.copy_amounts(wanted_quotas, <FieldNumber> <int> wanted, to)
        return result

    def have_room(self, limit, known, quotas, dimensions, amounts):
        """bool[quotas], whether so much more of the dimensions would be within a limit.

        :param limit: number of the refusal that else there would be.
        :param known: numbers of quotas.
        :param quotas: their places there.
        :param amounts: int64[quotas * dimensions], row by row.
        """
        cdef Guard guard
        cdef int64_t wanted = as_bounded(limit, "limit", 1, 4)
        cdef cnp.ndarray numbers = as_int64_array(known, "known", 0)
        cdef cnp.ndarray places = as_int64_array(quotas, "quotas", 0)
        cdef cnp.ndarray columns = as_int64_array(dimensions, "dimensions", 0)
        cdef cnp.ndarray extra = as_int64_array(amounts, "amounts", 0)
        cdef cnp.ndarray has_room = new_bool_array(places.size)
        cdef Values each = as_values(numbers), each_column = as_values(columns)
        cdef const int64_t* place = <const int64_t*> cnp.PyArray_DATA(places)
        cdef const int64_t* amount = <const int64_t*> cnp.PyArray_DATA(extra)
        cdef bool_t* to = <bool_t*> cnp.PyArray_DATA(has_room)
        cdef vector[int64_t] room
        cdef int64_t more
        cdef size_t i, d, rows = places.size, width = columns.size
        if extra.size != places.size * columns.size:
            raise ValueError(f"amounts must have {places.size} rows, as quotas has")
        if rows:
            check_range(places, 0, numbers.size - 1, "quotas", 0)
        if extra.size:
            check_range(extra, -MOST, MOST, "amounts", 0)
        guard.lock(self.mutex)
        for i in range(each.size()):
            if not 0 <= each[i] <= MOST_MEMBERS or not self.kernel.is_quota(<int32_t> each[i]):
                raise KeyError(each[i])
        if width:
            check_range(columns, 0, self.kernel.dimensions() - 1, "dimensions", 0)
        guard.keep()
        with nogil:
            self.kernel.refresh_all()
            room = self.kernel.room(<CodeNumber> <int> wanted, each, each_column)
            for i in range(rows):
                to[i] = True
                for d in range(width):
                    more = amount[i * width + d]
                    to[i] &= more == 0 or more <= room[place[i] * width + d]
        return has_room

    def moves(self):
        """Grows whenever have_room may say something else."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.refresh_all()
        return self.kernel.moves()

    def sharing(self, parent, dimension):
        """(amount, children, requests, minimums, weights, lends, runtimes, rounds) of a parent."""
        cdef Guard guard
        cdef size_t i
        guard.lock(self.mutex)
        cdef int32_t number = <int32_t> self.as_parent(parent)
        cdef int64_t d = as_bounded(dimension, "dimension", 0, self.kernel.dimensions() - 1)
        cdef SharingRecord division = self.kernel.sharing(number, <int> d)
        return (
            division.amount,
            as_list(division.children),
            [division.request[i] for i in range(division.request.size())],
            [division.minimum[i] for i in range(division.minimum.size())],
            [division.weight[i] for i in range(division.weight.size())],
            [bool(division.lends[i]) for i in range(division.lends.size())],
            [division.runtime[i] for i in range(division.runtime.size())],
            describe_rounds(division.rounds),
        )

    # --- owners

    def submit(self, quota, amounts, count, min_count, priority, preemptible):
        """Its number; None: a sum would be too large.

        :param amounts: of one member, by dimension.
        """
        cdef Guard guard
        cdef OwnerRecord terms
        cdef size_t d
        terms.count = <int32_t> as_bounded(count, "count", 1, MOST_MEMBERS)
        terms.min_count = <int32_t> as_bounded(min_count, "min_count", 1, terms.count)
        terms.priority = <int32_t> as_bounded(priority, "priority", LEAST_PRIORITY, MOST_MEMBERS)
        terms.is_preemptible = as_flag(preemptible, "preemptible")
        given = tuple(amounts)
        guard.lock(self.mutex)
        cdef int32_t number = self.as_quota(quota)
        cdef vector[int64_t] row = as_amounts(given, self.kernel.dimensions(), 0)
        for d in range(row.size()):
            if row[d] > MOST // terms.count:
                raise ValueError("amounts: too much in all")
        owner = self.kernel.submit(number, Values(row.data(), row.size()), terms)
        return None if owner < 0 else owner

    def release(self, owner):
        """Its end."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.release(self.as_owner(owner))

    def evict(self, owner, reclaimed):
        """It is pending again.

        :param reclaimed: others take back what it had.
        """
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.evict(self.as_owner(owner), as_flag(reclaimed, "reclaimed"))

    def forbid_borrowing(self, owner):
        """As if it had been evicted just now."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.forbid_borrowing(self.as_owner(owner))

    def admit(self, owner, members):
        """So many more of it run, whether that is admitted or not; False: there would be too many."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef vector[Ask] asks = self.as_asks(((owner, members),))
        return self.kernel.admit(asks[0].owner, asks[0].members)

    def owner(self, owner):
        """(quota, amounts, count, min_count, members, priority, preemptible, start, may borrow)."""
        cdef Guard guard
        cdef size_t d
        guard.lock(self.mutex)
        cdef int32_t number = self.as_owner(owner)
        cdef OwnerRecord record = self.kernel.owner(number)
        cdef Values row = self.kernel.amounts_of(number)
        return (
            record.quota,
            [row[d] for d in range(row.size())],
            record.count,
            record.min_count,
            record.members,
            record.priority,
            bool(record.is_preemptible),
            record.start,
            bool(self.kernel.may_borrow(number)),
        )

    def members(self, owner):
        """How many members of it run."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.owner(self.as_owner(owner)).members

    # --- decisions

    cdef vector[Ask] as_asks(self, object values) except *:
        """Of different owners; it is this thread's turn."""
        cdef vector[Ask] asks
        cdef Ask ask
        cdef OwnerRecord record
        cdef size_t i
        for owner, members in values:
            ask.owner = self.as_owner(owner)
            record = self.kernel.owner(ask.owner)
            ask.members = <int32_t> as_bounded(members, "members", 1, record.count - record.members)
            for i in range(asks.size()):
                if asks[i].owner == ask.owner:
                    raise ValueError("an owner is asked for twice")
            asks.push_back(ask)
        if asks.empty():
            raise ValueError("no owner is asked for")
        return asks

    def fits(self, asks):
        """Whether owners can have so many members more, all or none."""
        cdef Guard guard
        given = tuple(asks)
        guard.lock(self.mutex)
        cdef vector[Ask] wanted = self.as_asks(given)
        cdef VerdictRecord verdict = self.kernel.decide(Asks(wanted.data(), wanted.size()))
        return <int> verdict.outcome == BINDS

    def schedule(self, asks):
        """(outcome, code, borrows, part, victims) for owners and how many members more of each."""
        cdef Guard guard
        cdef vector[int32_t] victims
        given = tuple(asks)
        guard.lock(self.mutex)
        cdef vector[Ask] wanted = self.as_asks(given)
        cdef VerdictRecord verdict = self.kernel.decide(
            Asks(wanted.data(), wanted.size()), victims
        )
        return described(verdict, victims)

    def schedule_one(self, owner, members, reclaim):
        """(outcome, members more, members before, borrows, code, part, victims) for one owner; None:
        it has all its members.

        :param members: how many more; 0: the least to start with if it is pending, else one.
        :param reclaim: whether to look for victims.
        """
        cdef Guard guard
        cdef vector[int32_t] victims
        cdef Ask ask
        guard.lock(self.mutex)
        ask.owner = self.as_owner(owner)
        cdef const OwnerRecord* record = &self.kernel.owner(ask.owner)
        cdef int32_t before = record.members
        if before == record.count:
            return None
        ask.members = <int32_t> as_bounded(members, "members", 0, record.count - before)
        if ask.members == 0:
            ask.members = 1 if before > 0 else record.min_count
        cdef VerdictRecord verdict
        if reclaim:
            verdict = self.kernel.decide(Asks(&ask, 1), victims)
        else:
            verdict = self.kernel.decide(Asks(&ask, 1))
        return (
            <int> verdict.outcome,
            ask.members,
            before,
            bool(verdict.borrows),
            <int> verdict.code,
            verdict.part,
            as_list(victims),
        )

    def schedule_without(self, asks, victims):
        """The same if some of these owners leave; the first stay if they can."""
        cdef Guard guard
        cdef vector[int32_t] leaving
        given, others = tuple(asks), tuple(dict.fromkeys(victims))
        guard.lock(self.mutex)
        cdef vector[Ask] wanted = self.as_asks(given)
        for other in others:
            leaving.push_back(self.as_owner(other))
        cdef VerdictRecord verdict = self.kernel.decide_without(
            Asks(wanted.data(), wanted.size()), leaving
        )
        return described(verdict, leaving)

    def commit(self, asks):
        """Admit owners if all of them are; False: one is not, or has not so many members before.

        :param asks: (owner, members more, members before) of each.
        """
        cdef Guard guard
        cdef size_t i
        cdef Py_ssize_t position
        given = tuple([(owner, members) for owner, members, _ in asks])
        before = [as_bounded(members, "before", 0, MOST_MEMBERS) for _, _, members in asks]
        guard.lock(self.mutex)
        cdef vector[Ask] wanted
        for position in range(len(before)):
            owner = self.as_owner(given[position][0])
            if self.kernel.owner(owner).members != before[position]:
                return False
        wanted = self.as_asks(given)
        cdef VerdictRecord verdict = self.kernel.decide(Asks(wanted.data(), wanted.size()))
        if <int> verdict.outcome != BINDS:
            return False
        for i in range(wanted.size()):
            self.kernel.admit(wanted[i].owner, wanted[i].members)
        return True

    def commit_one(self, owner, members, before):
        """The same for one owner."""
        cdef Guard guard
        cdef Ask ask
        guard.lock(self.mutex)
        ask.owner = self.as_owner(owner)
        cdef const OwnerRecord* terms = &self.kernel.owner(ask.owner)
        cdef int64_t left = terms.count - terms.members
        ask.members = <int32_t> as_bounded(members, "members", 1, MOST_MEMBERS)
        if terms.members != before or ask.members > left:
            return False
        if <int> self.kernel.decide(Asks(&ask, 1)).outcome != BINDS:
            return False
        return self.kernel.admit(ask.owner, ask.members)

    def take_back(self, owner, members):
        """The opposite of the last ``admit`` of the owner that was admitted last."""
        cdef Guard guard
        cdef int64_t count = as_bounded(members, "members", 1, MOST_MEMBERS)
        guard.lock(self.mutex)
        cdef int32_t number = self.as_owner(owner)
        if self.kernel.owner(number).members < count:
            raise ValueError(f"members={count}: it has fewer")
        self.kernel.take_back(number, <int32_t> count)

    def withdraw(self, owner):
        """The opposite of the last ``submit``."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef int32_t number = self.as_owner(owner)
        if self.kernel.owner(number).members > 0:
            raise ValueError(f"owner={number}: it runs")
        self.kernel.withdraw(number)

    def revocable(self, quota):
        """The owners that have to leave so that a quota uses no more than its runtime."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef vector[int32_t] owners = self.kernel.revocable(self.as_quota(quota))
        return as_list(owners)

    def overused(self):
        """The quotas that use more than their runtime."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef vector[int32_t] quotas = self.kernel.overused()
        return as_list(quotas)

    # --- trials

    def mark(self):
        """Note changes from now on; dimensions, roots, totals and quotas cannot change meanwhile."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.mark()

    def rewind(self):
        """Undo all changes since the last mark, and remove it."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.rewind()

    def keep(self):
        """Remove the last mark; the changes stay."""
        cdef Guard guard
        guard.lock(self.mutex)
        self.kernel.keep()

    # --- all of it

    cdef string find_fault(self) except * nogil:
        return self.kernel.audit()

    cdef uint64_t kernel_bytes(self) noexcept:
        return self.kernel.bytes()

    def copy(self):
        """An independent equal."""
        cdef Guard guard
        cdef QuotaKernel other = QuotaKernel.__new__(QuotaKernel, True, True, True, False, False)
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        return other

    def __reduce__(self):
        raise TypeError("a QuotaKernel is saved by the QuotaTree that it belongs to")


cdef object described(const VerdictRecord& verdict, const vector[int32_t]& victims):
    return (
        <int> verdict.outcome,
        <int> verdict.code,
        bool(verdict.borrows),
        verdict.part,
        as_list(victims),
    )
