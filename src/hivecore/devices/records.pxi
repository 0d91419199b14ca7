"""What a node has, in the numbers of the kernel, from plain tuples."""

cdef extern from "devices/shape.hpp" namespace "hivecore::devices" nogil:
    cdef enum DeviceType "hivecore::devices::Type":
        pass

    ctypedef vector[int32_t] Labels
    ctypedef vector[int32_t] LinkCounts
    cdef enum LinksNumber "hivecore::devices::Links":
        pass

    cdef cppclass WideMask:
        void add(int) noexcept
        bool_t has(int) noexcept
        int count() noexcept

    cdef cppclass DeviceRecord:
        DeviceType type
        int32_t minor
        int64_t* amounts
        int32_t socket
        int32_t numa
        int32_t switch_
        Labels labels
        vector[Labels] groups

    cdef cppclass PartitionRow:
        WideMask members
        int size
        int64_t score
        int64_t bandwidth
        LinksNumber links

    cdef cppclass ShareTemplateRecord "hivecore::devices::ShareTemplate":
        int32_t name
        int64_t* amounts

    cdef cppclass ShareRules:
        bool_t shareable
        uint8_t matched
        vector[ShareTemplateRecord] templates

    cdef cppclass DeviceShape "hivecore::devices::Shape":
        DeviceShape(
            vector[DeviceRecord], vector[PartitionRow], bool_t, int32_t, int32_t, ShareRules,
            LinkCounts
        ) except +

    enum:
        TYPES "hivecore::devices::kTypes"
        AMOUNTS "hivecore::devices::kAmounts"
        MOST_AMOUNT "hivecore::devices::kMostAmount"
        MOST_DEVICES "hivecore::devices::kMostDevices"
        MOST_LINKED "hivecore::devices::kMostLinked"


cdef extern from *:
    """
    static void add_function(hivecore::devices::DeviceRecord& record, int32_t name, int32_t group) {
        record.functions.push_back({name, group});
    }
    """
    void add_function(DeviceRecord&, int32_t, int32_t) except +


# A value out of range was not checked by the wrapper.
cdef int64_t within(object value, int64_t low, int64_t high) except? -1:
    return as_bounded(value, "number", low, high)


cdef Labels as_label_numbers(object values) except *:
    cdef Labels labels
    for value in values:
        labels.push_back(<int32_t> within(value, 0, 2**31 - 1))
    return labels


cdef int fill_amounts(int64_t* amounts, object values) except -1:
    cdef int i = 0
    if len(values) > AMOUNTS:
        raise ValueError("too many amounts")
    for value in values:
        amounts[i] = within(value, 0, MOST_AMOUNT)
        i += 1
    return 0


cdef WideMask as_mask(object number) except *:
    """The set of the bits of an int."""
    cdef WideMask mask
    cdef const uint8_t* bytes_
    cdef int i
    raw = (<object> number).to_bytes(MOST_DEVICES // 8, "little")
    bytes_ = <const uint8_t*> PyBytes_AS_STRING(raw)
    for i in range(MOST_DEVICES):
        if bytes_[i >> 3] >> (i & 7) & 1:
            mask.add(i)
    return mask


cdef DeviceRecord as_record(object value) except *:
    """A (type, minor, amounts, socket, numa, switch, labels, functions, groups)."""
    cdef DeviceRecord record
    (type_, minor, amounts, socket, numa, switch, labels, functions, groups) = value
    record.type = <DeviceType> <int> within(type_, 0, TYPES - 1)
    record.minor = <int32_t> within(minor, 0, 2**31 - 1)
    fill_amounts(&record.amounts[0], amounts)
    record.socket = <int32_t> within(socket, -1, 4 * MOST_DEVICES)
    record.numa = <int32_t> within(numa, -1, 4 * MOST_DEVICES)
    record.switch_ = <int32_t> within(switch, -1, 4 * MOST_DEVICES)
    record.labels = as_label_numbers(labels)
    for group in groups:
        record.groups.push_back(as_label_numbers(group))
    for name, group in functions:
        add_function(
            record,
            <int32_t> within(name, 0, 2**31 - 1),
            <int32_t> within(group, 0, <int64_t> record.groups.size() - 1),
        )
    return record


cdef ShareTemplateRecord as_share_template(object value) except *:
    """A (name, amounts)."""
    cdef ShareTemplateRecord row
    name, amounts = value
    row.name = <int32_t> within(name, 0, 2**31 - 1)
    fill_amounts(&row.amounts[0], amounts)
    return row


cdef ShareRules as_share_rules(object value) except *:
    """None, or a (shareable, matched amounts, (name, amounts) of each template)."""
    cdef ShareRules rules
    if value is None:
        return rules
    shareable, matched, templates = value
    rules.shareable = as_flag(shareable, "shareable")
    for amount in matched:
        rules.matched |= <uint8_t> (1 << within(amount, 0, AMOUNTS - 1))
    for template in templates:
        rules.templates.push_back(as_share_template(template))
    return rules


cdef PartitionRow as_partition_row(object value) except *:
    """A (members, score, bandwidth, links)."""
    cdef PartitionRow row
    members, score, bandwidth, links = value
    row.members = as_mask(members)
    row.size = row.members.count()
    row.score = within(score, 0, 10**6)
    row.bandwidth = within(bandwidth, -1, 2**62)
    row.links = <LinksNumber> <int> within(links, 0, 2)
    return row


cdef LinkCounts as_link_counts(object values, int64_t gpus) except *:
    """None, or how many links there are, by pair of GPUs."""
    cdef LinkCounts counts
    if values is None:
        return counts
    if gpus > MOST_LINKED or len(values) != gpus * gpus:
        raise ValueError("links must be a square of 16 GPUs at most")
    for value in values:
        counts.push_back(<int32_t> within(value, 0, 1000))
    return counts
