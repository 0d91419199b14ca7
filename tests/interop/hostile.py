"""Documents with an unexpected value."""

import math
from contextlib import contextmanager

from hypothesis import strategies as st

HOSTILE = st.one_of(
    st.sampled_from(
        [None, True, math.nan, math.inf, -1, 2**63, 2**80, 1.5, b"x", "", "NaN", "1e99", "\ud800"]
    ),
    st.sampled_from(
        [[], {}, [None], {None: None}, {1: 2}, [[[[]]]], {"": {"": None}}, object(), ()]
    ),
    st.integers(),
    st.text(max_size=5),
)


@contextmanager
def refused_clearly(*more, of=(TypeError, ValueError), most=2000):
    """What is done works, or ends with an error of these kinds, which is one short line."""
    try:
        yield
    except of as error:
        assert type(error) in (*of, *more)
        assert 0 < len(str(error)) < most and "\n" not in str(error)


@st.composite
def broken(draw, document, values=HOSTILE):
    """The document with one value, anywhere in it, that is something else."""
    where = draw(st.sampled_from(list(_places(document))))
    return _replaced(document, where, draw(values))


def _places(value, way=()):
    yield way
    if isinstance(value, dict):
        entries = value.items()
    else:
        entries = enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from _places(entry, (*way, key))


def _replaced(value, way, new):
    if not way:
        return new
    if isinstance(value, dict):
        return {**value, way[0]: _replaced(value[way[0]], way[1:], new)}
    return [
        _replaced(entry, way[1:], new) if i == way[0] else entry for i, entry in enumerate(value)
    ]
