"""A request in the numbers of the kernel, with the answers that it has had."""

cdef extern from "devices/cluster.hpp" namespace "hivecore::devices" nogil:
    cdef enum ScopeNumber "hivecore::devices::Scope":
        pass
    cdef enum ExclusiveNumber "hivecore::devices::Exclusive":
        pass
    cdef enum PartitionNumber "hivecore::devices::Partition":
        pass
    cdef enum PolicyNumber "hivecore::devices::Policy":
        pass

    cdef cppclass ChargeRecord "hivecore::devices::Charge":
        DeviceType type
        ExclusiveNumber exclusive
        int32_t minor
        int32_t function
        int32_t template_name
        int64_t* amounts

    cdef cppclass LabelRule:
        Labels numbers
        bool_t is_negative

    cdef cppclass NeedRecord "hivecore::devices::Need":
        DeviceType type
        int count
        bool_t every
        bool_t repeats
        int64_t* amounts
        vector[LabelRule] selector
        bool_t functions
        vector[LabelRule] function_selector
        ExclusiveNumber exclusive
        ScopeNumber scope
        int preferred

    cdef cppclass RequestRecord "hivecore::devices::Request":
        vector[NeedRecord] needs
        vector[int8_t] joint
        bool_t same_switch
        PartitionNumber partition
        int64_t bandwidth
        int32_t isolation
        Labels models
        LinksNumber links

    cdef enum CodeNumber "hivecore::devices::Code":
        pass

    cdef cppclass VerdictRecord "hivecore::devices::Verdict":
        CodeNumber code
        DeviceType type

    cdef cppclass ChosenRecord "hivecore::devices::LastChoice":
        VerdictRecord verdict
        vector[ChargeRecord] charges
        bool_t idle
        uint64_t number

    cdef cppclass QueryKernel "hivecore::devices::Query":
        QueryKernel(RequestRecord) except +
        uint64_t bytes() noexcept


cdef vector[LabelRule] as_selector(object rules) except *:
    """A (numbers, whether none of them may be there) for each rule."""
    cdef vector[LabelRule] selector
    cdef LabelRule rule
    for numbers, is_negative in rules:
        rule.numbers = as_label_numbers(sorted(numbers))
        rule.is_negative = as_flag(is_negative, "is_negative")
        selector.push_back(rule)
    return selector


cdef NeedRecord as_need(object value) except *:
    """A (type, count, every, amounts, selector, function selector or None, exclusive, scope,
    preferred, repeats).
    """
    cdef NeedRecord need
    type_, count, every, amounts, selector, functions, exclusive, scope, preferred, repeats = value
    need.type = <DeviceType> <int> within(type_, 0, TYPES - 1)
    need.count = <int> within(count, 1, MOST_DEVICES)
    need.every = every
    need.repeats = repeats
    if need.repeats and (need.every or functions is not None or exclusive):
        raise ValueError("what repeats is neither every device, nor exclusive, nor has functions")
    fill_amounts(&need.amounts[0], amounts)
    need.selector = as_selector(selector)
    need.functions = functions is not None
    if functions is not None:
        need.function_selector = as_selector(functions)
    need.exclusive = <ExclusiveNumber> <int> within(exclusive, 0, 2)
    need.scope = <ScopeNumber> <int> within(scope, 0, 4)
    need.preferred = <int> within(preferred, -1, 4)
    return need


@cython.final
cdef class SharedMinors:
    """`Plan.minors` of all plans with the same charges; None: nothing has asked for it yet."""

    cdef tuple minors


@cython.final
cdef class Query:
    """Query(needs, joint, same_switch, partition, bandwidth, isolation, models, links=0)\n--\n\nA request for one DeviceKernel; it keeps what it has been answered."""

    cdef QueryKernel* kernel
    cdef object core  # the kernel that gave the answers; None: there are none yet
    cdef SharedMinors shared  # by plans of the last choice
    cdef uint64_t shared_number

    def __cinit__(
        self, needs, joint, same_switch, partition, bandwidth, isolation, models, links=0
    ):
        cdef RequestRecord request
        cdef int64_t before = -1
        for need in needs:
            request.needs.push_back(as_need(need))
            if <int64_t> <int> request.needs.back().type <= before:
                raise ValueError("needs must be in the order of their types")
            before = <int64_t> <int> request.needs.back().type
        for position in joint:
            request.joint.push_back(<int8_t> within(position, 0, <int64_t> request.needs.size() - 1))
        if len(set(joint)) != len(joint):
            raise ValueError("joint must name different needs")
        for position in joint:
            if request.needs[<size_t> position].repeats:
                raise ValueError("joint must not name what repeats")
        request.same_switch = same_switch
        request.partition = <PartitionNumber> <int> within(partition, 0, 2)
        request.bandwidth = within(bandwidth, -1, 2**62)
        request.isolation = <int32_t> within(isolation, 0, 2**31 - 1)
        request.models = as_label_numbers(sorted(models))
        request.links = <LinksNumber> <int> within(links, 0, 2)
        self.kernel = new QueryKernel(request)

    def __dealloc__(self):
        del self.kernel

    def __sizeof__(self):
        return object.__sizeof__(self) + self.kernel.bytes()
