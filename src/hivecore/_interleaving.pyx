# distutils: language = c++
"""The kernel behind hivecore.interleaving, which checks arguments.

Durations are finite, not negative, and not all zero in any row.

>>> import numpy as np
>>> from hivecore import _interleaving
>>> jobs = np.array([[2.0, 1.0], [1.0, 2.0]])
>>> time, efficiency, offsets = _interleaving.rounds(jobs, np.array([0, 2]), np.array([0, 1], "i4"))
>>> float(time[0]), float(efficiency[0]), offsets.tolist()
(3.0, 1.0, [0, 1])
"""

from libc.stdint cimport int32_t
from libcpp cimport bool as bool_t

include "arguments.pxi"
include "reals.pxi"
include "mutex.pxi"

ctypedef span[const int32_t] Members
ctypedef span[const uint8_t] Flags


cdef extern from "interleaving/grouping/grouping.hpp" namespace "hivecore::interleaving" nogil:
    enum:
        kMaxSlots

    cdef enum class Model:
        kBarrier
        kData2
        kArtifact

    cdef cppclass Rule:
        Model model
        int columns
        bint best
        int slots() noexcept

    cdef cppclass Durations:
        Reals stages
        int columns
        int32_t jobs() noexcept

    cdef cppclass Groups:
        Values starts
        Members members

    cdef cppclass Rounds:
        vector[double] time
        vector[double] efficiency
        vector[int64_t] offsets

    cdef cppclass Jobs:
        Durations durations
        Values gpus
        Reals solo
        Values rank
        Values memory

    cdef cppclass Terms:
        Rule rule
        int max_group
        Reals factors
        int64_t gpu_memory
        double max_slowdown
        bint gain

    cdef cppclass Contention:
        int64_t capacity
        bint least_waste_first

    cdef cppclass Grouping:
        vector[int64_t] starts
        vector[int32_t] members

    Rounds rounds_of(const Rule&, const Durations&, const Groups&) except +
    void efficiencies_of_pairs(const Rule&, const Durations&, double*) except +


cdef extern from "interleaving/exact/exact.hpp" namespace "hivecore::interleaving" nogil:
    cdef cppclass ExactGrouping:
        Grouping groups
        double value
        double bound

    cdef cppclass KernelGrouper "hivecore::interleaving::ExactGrouper":
        KernelGrouper(const Terms&) except +
        ExactGrouping group(const Jobs&, Flags, int64_t, int) except +


cdef extern from *:
    """
    #include "interruptible.hpp"

    namespace hivecore::interleaving {
    static Grouping group_unless_interrupted(const Jobs& jobs, const Terms& terms,
                                             const Contention& contention, const Groups& start,
                                             std::int64_t effort, std::int64_t most_in_matrix) {
        return interruptible([&](matching::Interrupt* interrupt) {
            const Means means{most_in_matrix, interrupt};
            return group_jobs(jobs, terms, contention, start, effort, means);
        });
    }
    }
    """
    Grouping group_unless_interrupted "hivecore::interleaving::group_unless_interrupted"(
        const Jobs&, const Terms&, const Contention&, const Groups&, int64_t, int64_t
    ) except +


cdef Rule as_rule(object durations, str model, bint best) except *:
    cdef Rule rule
    if not isinstance(durations, np.ndarray) or durations.dtype != np.float64:
        raise TypeError("durations must be an array of float64")
    if durations.ndim != 2 or len(durations) > 1 << 24 or not durations.flags.c_contiguous:
        raise ValueError("durations must be a contiguous array of two dimensions")
    columns = durations.shape[1]
    if model == "barrier":
        rule.model = Model.kBarrier
    elif model == "data2":
        rule.model = Model.kData2
    elif model == "artifact":
        rule.model = Model.kArtifact
    else:
        raise ValueError("model is unknown")
    if not 2 <= columns <= kMaxSlots if rule.model == Model.kBarrier else columns != 3:
        raise ValueError("durations has a wrong number of columns")
    rule.columns = columns
    rule.best = best
    return rule


cdef Durations as_durations(cnp.ndarray durations, const Rule& rule) noexcept:
    cdef Durations rows
    rows.stages = as_real_span(durations)
    rows.columns = rule.columns
    return rows


cdef Values as_integers(object values, str name, cnp.npy_intp length) except *:
    return as_values(as_typed_array(values, name, cnp.NPY_INT64, length))


cdef Groups as_groups(object starts, object members, Rule rule, Durations durations) except *:
    cdef Groups groups
    cdef cnp.ndarray of = as_typed_array(members, "members", cnp.NPY_INT32, -1)
    cdef size_t count = cnp.PyArray_SIZE(of)
    cdef size_t g
    groups.members = Members(<const int32_t*> cnp.PyArray_DATA(of), count)
    groups.starts = as_integers(starts, "starts", -1)
    cdef Values places = groups.starts
    if places.empty() or places[0] != 0 or places[places.size() - 1] != <int64_t> count:
        raise ValueError("starts must lead from 0 to the number of members")
    for g in range(1, places.size()):
        if not places[g - 1] < places[g] <= min(places[g - 1] + rule.slots(), <int64_t> count):
            raise ValueError("starts must rise by 1 to the number of slots")
    for g in range(count):
        if not 0 <= groups.members[g] < durations.jobs():
            raise ValueError("members must be jobs")
    return groups


cdef Jobs as_jobs(
    Durations durations, object gpus, object solo, object rank, object memory
) except *:
    cdef Jobs jobs
    jobs.durations = durations
    jobs.gpus = as_integers(gpus, "gpus", durations.jobs())
    jobs.solo = as_reals(solo, "solo", durations.jobs())
    jobs.rank = as_integers(rank, "rank", durations.jobs())
    jobs.memory = as_integers(memory, "memory", durations.jobs())
    return jobs


cdef Terms as_terms(
    Rule rule, object factors, int64_t gpu_memory, double max_slowdown, bint gain
) except *:
    cdef Terms terms
    terms.rule = rule
    terms.factors = as_reals(factors, "factors", -1)
    if not 1 <= terms.factors.size() <= <size_t> rule.slots():
        raise ValueError("factors must be of 1 to the number of slots")
    terms.max_group = terms.factors.size()
    terms.gpu_memory = gpu_memory
    terms.max_slowdown = max_slowdown
    terms.gain = gain
    return terms


cdef tuple as_arrays(const Grouping& grouping):
    """Starts and members."""
    members = np.empty(grouping.members.size(), np.int32)
    if not grouping.members.empty():
        memcpy(cnp.PyArray_DATA(members), grouping.members.data(), members.nbytes)
    return as_array(grouping.starts), members


def rounds(durations, starts, members, str model="barrier", bint best=True):
    """Times and efficiencies of groups, and the offset of every member.

    Group g is ``members[starts[g]:starts[g + 1]]``.
    """
    cdef Rule rule = as_rule(durations, model, best)
    cdef Durations rows = as_durations(durations, rule)
    cdef Groups groups = as_groups(starts, members, rule, rows)
    cdef Rounds solved
    with nogil:
        solved = rounds_of(rule, rows, groups)
    return hold_reals(solved.time), hold_reals(solved.efficiency), as_array(solved.offsets)


def pairs(durations, str model="barrier", bint best=True):
    """Efficiencies of all pairs, on the diagonal of the jobs alone."""
    cdef Rule rule = as_rule(durations, model, best)
    cdef Durations rows = as_durations(durations, rule)
    cdef cnp.ndarray efficiencies = np.empty((len(durations), len(durations)))
    cdef double* entries = <double*> cnp.PyArray_DATA(efficiencies)
    with nogil:
        efficiencies_of_pairs(rule, rows, entries)
    return efficiencies


def group(
    durations, gpus, solo, rank, memory, str model, bint best, factors, int64_t gpu_memory,
    double max_slowdown, bint gain, int64_t capacity, bint least_waste_first, int64_t effort,
    starts, members, int64_t most_in_matrix
):
    """Muri's rounds of matchings, and with some effort a local search.

    :returns: starts and members of groups, grown from those given; they have at most as many jobs
        as there are factors. Of more nodes of a bucket than ``most_in_matrix`` no weights are stored.
    """
    cdef Rule rule = as_rule(durations, model, best)
    cdef Jobs jobs = as_jobs(as_durations(durations, rule), gpus, solo, rank, memory)
    cdef Terms terms = as_terms(rule, factors, gpu_memory, max_slowdown, gain)
    cdef Groups start = as_groups(starts, members, rule, jobs.durations)
    cdef Contention contention
    cdef size_t g
    for g in range(1, start.starts.size()):
        if start.starts[g] - start.starts[g - 1] > terms.max_group:
            raise ValueError("starts has a group of more jobs than there are factors")
    contention.capacity = capacity
    contention.least_waste_first = least_waste_first
    return as_arrays(
        group_unless_interrupted(jobs, terms, contention, start, effort, most_in_matrix)
    )


@cython.internal
cdef class ExactGrouper:
    cdef ObjectMutex mutex
    cdef KernelGrouper* kernel
    cdef int columns

    def __dealloc__(self):
        del self.kernel


def exact_grouper(
    durations, str model, bint best, factors, int64_t gpu_memory, double max_slowdown, bint gain
):
    """What group_exactly() keeps between calls on the same terms.

    Of the durations only the number of columns matters.
    """
    cdef Rule rule = as_rule(durations, model, best)
    cdef Terms terms = as_terms(rule, factors, gpu_memory, max_slowdown, gain)
    cdef ExactGrouper grouper = ExactGrouper.__new__(ExactGrouper)
    grouper.kernel = new KernelGrouper(terms)
    grouper.columns = rule.columns
    return grouper


def group_exactly(
    ExactGrouper grouper not None, durations, gpus, solo, rank, memory, optional, int64_t capacity,
    int nodes
):
    """The best groups: starts and members, their value, and what none exceeds."""
    cdef Durations rows
    if durations.ndim != 2 or durations.shape[1] != grouper.columns:
        raise ValueError("durations has another number of columns than the grouper")
    rows.stages = as_reals(durations.ravel(), "durations", -1)
    rows.columns = grouper.columns
    cdef Jobs jobs = as_jobs(rows, gpus, solo, rank, memory)
    cdef cnp.ndarray may_wait = as_typed_array(optional, "optional", cnp.NPY_UINT8, rows.jobs())
    if (np.asarray(gpus) < 1).any():
        raise ValueError("gpus must be positive")
    cdef Flags waits = Flags(
        <const uint8_t*> cnp.PyArray_DATA(may_wait), <size_t> cnp.PyArray_SIZE(may_wait)
    )
    cdef ExactGrouping solved
    cdef Guard guard
    guard.lock(grouper.mutex)
    guard.keep()
    with nogil:
        solved = grouper.kernel.group(jobs, waits, capacity, nodes)
    guard.unlock()
    return *as_arrays(solved.groups), solved.value, solved.bound
