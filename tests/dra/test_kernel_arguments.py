"""Numbers that point nowhere are refused by the kernel's binding, whatever they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore import _dra

small = st.integers(-3, 4)
uses = st.lists(st.tuples(small, small), max_size=2)
charges = st.lists(st.tuples(small, st.integers(0, 3), uses), max_size=2)
rooms = st.lists(small, max_size=2)
devices = st.lists(st.tuples(small, st.integers(0, 3), charges, rooms), max_size=3)
alternatives = st.lists(st.tuples(small, small, small, st.booleans()), max_size=3)
constraints = st.lists(st.tuples(st.booleans(), st.lists(small, max_size=2)), max_size=2)
profiles = st.lists(
    st.tuples(
        st.lists(small, max_size=3),
        st.lists(st.booleans(), max_size=3),
        st.lists(small, max_size=3),
        st.lists(st.lists(small, max_size=2), max_size=2),
    ),
    max_size=3,
)


@given(devices, st.lists(small, max_size=2), st.lists(st.integers(0, 3), max_size=2), alternatives,
       constraints, profiles, st.integers(-1, 3), st.lists(small, max_size=2), st.booleans(),
       st.lists(small, max_size=4))  # fmt: skip
@examples(500)
def test_any_numbers_give_an_answer_or_a_value_error(
    node, left, common, of, among, offered, mode, limits, is_right, costs
):
    if is_right:
        costs = [1] * (len(limits) * len(of) * len(node))
    try:
        built = _dra.node(node, left, common), _dra.claims(of, among, offered)
        answer = _dra.search(*built, mode, 1000, 5, limits, costs)
    except ValueError:
        return
    assert answer[0] in (0, 1, 2)


def test_objects_of_another_kind_are_a_type_error():
    node = _dra.node([], [], [])
    with pytest.raises(TypeError, match=r"_dra\.Claims"):
        _dra.search(node, node, 0, 10, 10)
    with pytest.raises(TypeError):
        _dra.search(None, None, 0, 10, 10)
    with pytest.raises(OverflowError):
        _dra.node([(2**40, 0, [], [])], [], [])


def test_more_requests_than_a_call_may_have_are_refused():
    of = [(i, i, 1, False) for i in range(1025)]
    with pytest.raises(ValueError, match="1,024"):
        _dra.search(_dra.node([], [], []), _dra.claims(of, [], []), 0, 10, 10)
