"""Slurm's hostlists: the documented ones, both ways, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.interop.slurm import compress_hostlist, expand_hostlist


def expanded_by_hand(text):
    """Another way to read a hostlist: bracket by bracket, from the left."""
    entries, depth, begun = [], 0, ""
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter in ", " and not depth:
            entries.append(begun)
            begun = ""
        else:
            begun += letter
    hosts = []
    for entry in filter(None, [*entries, begun]):
        names = [""]
        while entry:
            text, bracket, entry = entry.partition("[")
            names = [name + text for name in names]
            if bracket:
                inside, _, entry = entry.partition("]")
                numbers = []
                for part in inside.split(","):
                    low, _, high = part.partition("-")
                    for number in range(int(low), int(high or low) + 1):
                        numbers.append(f"{number:0{len(low)}d}")
                names = [name + number for name in names for number in numbers]
        hosts += names
    return tuple(hosts)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("tux", ("tux",)),
        ("tux[0-3,12,18-20]", tuple(f"tux{i}" for i in (0, 1, 2, 3, 12, 18, 19, 20))),
        ("s[0-1,4]", ("s0", "s1", "s4")),
        ("node[001-003,020]", ("node001", "node002", "node003", "node020")),
        ("n[08-10]", ("n08", "n09", "n10")),
        ("n[1-2]-ib,login", ("n1-ib", "n2-ib", "login")),
        ("a[1-2]b[3-4]", ("a1b3", "a1b4", "a2b3", "a2b4")),
        ("[1-2]", ("1", "2")),
        ("n[3,1-2]", ("n3", "n1", "n2")),
    ],
)
def test_documented_hostlists_stand_for_these_names(text, names):
    assert expand_hostlist(text) == names
    assert expand_hostlist(compress_hostlist(names)) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n1", "n2", "n4"], "n[1-2,4]"),
        (["n9", "n10"], "n[9-10]"),
        (["n09", "n10"], "n[09-10]"),
        (["n9", "n010"], "n[9,010]"),
        (["n099", "n100"], "n[099-100]"),
        (["n2", "n1"], "n[2,1]"),
        (["n1", "n1"], "n[1,1]"),
        (["n1", "m1", "n2"], "n1,m1,n2"),
        (["a1b3", "a1b4", "a2b3", "a2b4"], "a[1-2]b[3-4]"),
        (["a1b3", "a1b4", "a2b3"], "a1b[3-4],a2b3"),
        (["n" + "9" * 19, "n" + "9" * 18 + "8"], "n" + "9" * 19 + ",n" + "9" * 18 + "8"),
    ],
)
def test_names_share_brackets_and_keep_their_order(names, text):
    assert compress_hostlist(names) == text
    assert expand_hostlist(text) == tuple(names)


NAMES = st.lists(
    st.one_of(
        st.from_regex(r"[ab]{0,2}[0-9]{1,3}(-[cd]?[0-9]{0,2})?", fullmatch=True),
        st.from_regex("[a-c\u0661é.]{1,3}[0-9]{0,20}", fullmatch=True),
    ),
    max_size=30,
)


@given(NAMES)
@examples(300)
def test_any_names_come_back_in_their_order(names):
    text = compress_hostlist(names)
    assert expand_hostlist(text) == tuple(names)
    if names:
        assert expanded_by_hand(text) == tuple(names)
    assert len(text) <= sum(map(len, names)) + 3 * len(names)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("n[1-1000000000000]", "more than the 1,048,576 names"),
        ("n[1-2000]m[1-2000]", "more than the 1,048,576 names"),
        ("[0-1]" * 64, "more than the 1,048,576 names"),
        ("n[1-1048576],m", "more than the 1,048,576 names"),
        ("n[2-1]", "runs backwards"),
        ("n[1-2-3]", "is no number"),
        ("n[a-b]", "is no number"),
        ("n[]", "is no number"),
        ("n[1,]", "is no number"),
        ("n[" + "1" * 5000 + "]", "is no number"),
        ("n[\u0661]", "is no number"),
        ("n[1", "the bracket of '[1' is not closed"),
        ("n1]", "the bracket of ']' is not opened"),
        ("n[[1]]", "a bracket stands in the bracket of '[[1]]'"),
        ("n[1, 2]", "is no number"),
        ("n[1-[2-3]]", "a bracket stands in the bracket of '[1-[2-3]]'"),
        ("n1 n[1", "the bracket of '[1' is not closed"),
        ("n1,]2[", "the bracket of ']2[' is not opened"),
        ("n1,block{b1}", "'block{b1}' is a function, which only Slurm can expand"),
    ],
)
def test_what_is_no_hostlist_is_refused_before_a_name_is_made(text, says):
    with pytest.raises(ValueError, match="hostlist '") as error:
        expand_hostlist(text)
    assert says in str(error.value)


def test_the_most_names_may_be_fewer():
    assert len(expand_hostlist("n[1-3]", most=3)) == 3
    with pytest.raises(ValueError, match="more than the 2 names"):
        expand_hostlist("n[1-3]", most=2)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a[1]", "a]"])
def test_a_name_that_cannot_stand_in_a_hostlist_is_refused(name):
    with pytest.raises(ValueError, match="names"):
        compress_hostlist(["n1", name])


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match="text must be a string"):
        expand_hostlist(3)
    with pytest.raises(TypeError, match="names must be a sequence"):
        compress_hostlist("n1")
    with pytest.raises(TypeError, match="names must be a string"):
        compress_hostlist([1])


@given(st.text(alphabet="n1029[]-, ", max_size=20))
@examples(300)
def test_any_text_is_read_or_refused(text):
    try:
        names = expand_hostlist(text)
    except ValueError:
        return
    assert names == expanded_by_hand(text)
