"""Many names at once against a dict and plain comparisons."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore._cells import NameTable, are_same_names, are_strings, is_list_of_names
from hivecore.cells import NodeSet

HALF_A_PAIR = "node-\ud83d"
NAMES = st.text(max_size=20) | st.sampled_from(
    ["", "n", "n1", "n11", "n" * 8, "n" * 9, "n" * 40, "zürich-1", HALF_A_PAIR, "\0", "\0\0"]
)


class Stranger:
    """Equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = None


class Odd(str):
    """A string that is equal to nothing."""

    __slots__ = ()

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 0


@examples(300)
@given(st.lists(NAMES, unique=True, max_size=40), st.lists(NAMES, max_size=40))
def test_a_name_is_among_others_if_a_set_has_it(known, others):
    result = NameTable(tuple(known)).among(tuple(others))
    assert result.dtype == np.bool_
    assert result.tolist() == [name in set(others) for name in known]


def test_many_names_are_distinguished():
    known = [f"rack{i}/{i * i}" for i in range(5000)]
    table = NameTable(tuple(known))
    assert table.among(tuple(reversed(known))).all()
    assert not table.among(tuple(name + "x" for name in known)).any()
    assert np.flatnonzero(table.among((known[7], known[4999], known[7]))).tolist() == [7, 4999]


def test_a_string_of_another_class_is_read_as_text():
    assert NameTable((np.str_("a"), Odd("b"))).among(("b", Odd("a"))).all()


@pytest.mark.parametrize("wrong", [3, None, b"n1", Stranger()])
def test_what_is_no_string_is_refused(wrong):
    table = NameTable(("n1",))
    assert not are_strings(("n1", wrong))
    with pytest.raises(TypeError, match="names must be strings"):
        table.among(("n1", wrong))
    with pytest.raises(TypeError, match="names must be strings"):
        NameTable(("n1", wrong))
    assert table.among(("n1",)).all()


def test_a_table_has_a_name_once():
    with pytest.raises(ValueError, match=r"'n1' is there twice"):
        NameTable(("n1", "n2", "n1"))


@examples(200)
@given(st.lists(NAMES, max_size=6), st.lists(NAMES, max_size=6))
def test_names_are_the_same_if_lists_of_them_are_equal(item, other):
    again = ["".join(list(name)) for name in item]  # other objects
    for given_ in (list, tuple):
        assert are_same_names(given_(item), tuple(item))
        assert are_same_names(given_(again), tuple(item))
        assert are_same_names(given_(other), tuple(item)) == (other == item)
    assert are_strings(tuple(item))


def test_other_things_are_never_the_same():
    assert not are_same_names([Stranger()], ("a",))
    assert not are_same_names([np.str_("a")], ("a",))
    assert not are_same_names("a", ("a",))
    assert not are_same_names(iter(["a"]), ("a",))
    assert not are_same_names(None, ())


@examples(300)
@given(st.lists(NAMES, unique=True, max_size=20), st.lists(NAMES, max_size=20))
def test_names_in_a_text_are_those_of_its_list(known, others):
    text = json.dumps(others, separators=(",", ":")).encode()
    plain = is_list_of_names(text)
    letters = "".join(others)
    assert plain == (
        bool(others)
        and letters.isascii()
        and (letters.isprintable() or not letters)
        and not set(letters) & {'"', "\\"}
    )
    if plain:
        table = NameTable(tuple(known))
        assert table.among(text).tolist() == table.among(tuple(others)).tolist()
    if HALF_A_PAIR not in others:
        read, created = NodeSet.of_json(text), NodeSet(others)
        for name in [*known, *others, ",", ""]:
            assert (name in read) == (name in created) == (name in set(others))
        assert read == created
        assert list(read) == list(created)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[",
        b"[]",
        b'["]',
        b'["a"',
        b'["a",]',
        b'["a""b"]',
        b'["a" ,"b"]',
        b'["a", "b"]',
        b'["a",3]',
        b"[3]",
        b'["a\\n"]',
        b'["a\n"]',
        b'["\xc3\xbc"]',
        b'["a"],["b"]',
        b'{"a","b"}',
    ],
)
def test_a_text_that_is_written_in_another_way_is_none(text):
    assert not is_list_of_names(text)


@pytest.mark.parametrize("text", [b'["a",3]', b'["a"', b'"a"', b'["a",]', b'{"a":1}'])
def test_a_text_that_is_no_list_of_names_is_refused(text):
    with pytest.raises(ValueError, match=r"list|array|str|truncated|malformed|JSON"):
        NodeSet.of_json(text)
