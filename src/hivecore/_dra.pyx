# distutils: language = c++
"""Kernel of device claims: `hivecore.dra` turns names and amounts into numbers.

A node and claims never change once they are made, so no call waits for another.

>>> from hivecore import _dra
>>> node = _dra.node([(0, 0, [], [])] * 3, [], [])  # three free devices of profile 0
>>> two = _dra.claims([(0, 0, 2, False)], [], [([-1], [False], [], [])])
>>> _dra.search(node, two, mode=0, limit=1000, few=512)[:2]
(0, [(0, 0), (0, 1)])
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libcpp cimport bool as bool_t
from libcpp.vector cimport vector


cdef extern from "dra/search.hpp" namespace "hivecore::dra" nogil:
    cdef cppclass Held:
        pass

    cdef cppclass Mode:
        pass

    cdef cppclass Outcome:
        pass

    cdef cppclass Reason:
        pass

    cdef cppclass CounterUse:
        int32_t counter
        int64_t amount

    cdef cppclass Charge:
        int32_t set
        uint64_t groups
        vector[CounterUse] uses

    cdef cppclass Device:
        int32_t profile
        Held held
        vector[Charge] charges
        vector[int64_t] room

    cdef cppclass KernelNode "hivecore::dra::Node":
        vector[Device] devices
        vector[int64_t] left
        vector[uint64_t] common

    cdef cppclass Alternative:
        int32_t request
        int32_t claim
        int32_t wanted
        bool_t is_admin

    cdef cppclass Constraint:
        bool_t is_match
        vector[int32_t] alternatives

    cdef cppclass Profile:
        vector[int32_t] offers
        vector[bool_t] barred
        vector[int64_t] amounts
        vector[vector[int32_t]] values

    cdef cppclass KernelClaims "hivecore::dra::Claims":
        vector[Alternative] alternatives
        vector[Constraint] constraints
        vector[Profile] profiles

    cdef cppclass Budgets:
        vector[int64_t] limits
        vector[int64_t] costs

    cdef cppclass Grant:
        size_t alternative
        size_t device

    cdef cppclass Answer:
        Outcome outcome
        vector[Grant] grants
        bool_t is_first
        uint64_t work
        Reason reason
        vector[size_t] requests
        size_t wanted
        size_t present

    void check(const KernelNode&) except +
    Answer run "hivecore::dra::search"(
        const KernelNode&, const KernelClaims&, const Budgets&, Mode, uint64_t, uint64_t
    ) except +


@cython.internal
cdef class Node:
    cdef KernelNode kernel


@cython.internal
cdef class Claims:
    cdef KernelClaims kernel


def node(devices, left, common):
    """A node.

    Devices are (profile, held, charges, room), charges (set, groups, [(counter, amount), ...]);
    ``left`` is what is left of each counter, ``common`` the groups of each set in use.
    """
    cdef Node built = Node.__new__(Node)
    cdef Device device
    cdef Charge charge
    cdef CounterUse use
    built.kernel.left = left
    built.kernel.common = common
    for profile, held, charges, room in devices:
        if not 0 <= held <= 2:
            raise ValueError("held: 0, 1 or 2")
        device.profile = profile
        device.held = <Held> <int> held
        device.room = room
        device.charges.clear()
        for counters, groups, uses in charges:
            charge.set = counters
            charge.groups = groups
            charge.uses.clear()
            for counter, amount in uses:
                use.counter = counter
                use.amount = amount
                charge.uses.push_back(use)
            device.charges.push_back(charge)
        built.kernel.devices.push_back(device)
    check(built.kernel)
    return built


def claims(alternatives, constraints, profiles):
    """Claims.

    Alternatives are (request, claim, wanted or -1, admin access); constraints (match,
    alternatives); profiles (offers, barred, amounts, values of each constraint).
    """
    cdef Claims built = Claims.__new__(Claims)
    cdef Alternative alternative
    cdef Constraint constraint
    cdef Profile profile
    for request, claim, wanted, is_admin in alternatives:
        alternative.request = request
        alternative.claim = claim
        alternative.wanted = wanted
        alternative.is_admin = is_admin
        built.kernel.alternatives.push_back(alternative)
    for is_match, among in constraints:
        constraint.is_match = is_match
        constraint.alternatives = among
        built.kernel.constraints.push_back(constraint)
    for offers, barred, amounts, values in profiles:
        profile.offers = offers
        profile.barred = barred
        profile.amounts = amounts
        profile.values = values
        built.kernel.profiles.push_back(profile)
    return built


def search(
    Node node not None, Claims claims not None, int mode, uint64_t limit, uint64_t few, limits=(), costs=()
):
    """Devices for the claims.

    :param limits: the most that grants may cost together, in each of several currencies.
    :param costs: of each limit, alternative and device, in this order.
    :returns: outcome, grants as (alternative, device), whether they are the first, work, and of a
        failure the reason: its kind, requests, devices wanted and present.
    """
    if not 0 <= mode <= 2:
        raise ValueError("mode: 0, 1 or 2")
    cdef Budgets budgets
    cdef Answer answer
    budgets.limits = limits
    budgets.costs = costs
    with nogil:
        answer = run(node.kernel, claims.kernel, budgets, <Mode> mode, limit, few)
    grants = [(grant.alternative, grant.device) for grant in answer.grants]
    return (
        <int> answer.outcome,
        grants,
        answer.is_first,
        answer.work,
        <int> answer.reason,
        answer.requests,
        answer.wanted,
        answer.present,
    )
