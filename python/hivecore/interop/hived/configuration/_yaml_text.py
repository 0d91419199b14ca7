"""YAML text to plain data, with every scalar as it is written.

HiveD decodes into typed fields: an address ``010`` keeps its zero and a tenant may be called
``on``. So scalars stay text (nothing stays None) and code that needs a number reads it as one.

The text is read as a stream of events and built here, with a stack instead of recursion: that is
several times faster than PyYAML's constructors, and depth, aliases and double keys are in our
hands. Aliases share their object; what they would stand for written out is counted, and limited.
"""

from collections.abc import Iterator
from typing import Any

from hivecore.interop.hived.configuration.elsewhere import configuration_in
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place, Problems

_DEPTH = 100
_WRITTEN_OUT = 1_000_000
_NULL = {"", "~", "null", "Null", "NULL"}
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "bool", "null", "map", "seq")}
_NO_KEY = object()


class _Stop(Exception):
    """Reading cannot go on; the problem has been reported."""


def read_yaml(text: str, problems: Problems, written_out: int = _WRITTEN_OUT) -> Any:
    """The document in the text; None after a mistake, which is added to the problems.

    :param written_out: for how many parts of the document aliases may stand.
    """
    try:
        import yaml
    except ImportError:
        raise ImportError("reading YAML needs PyYAML: pip install pyyaml") from None
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    before = len(problems.found)
    try:
        document = _build(yaml, yaml.parse(text, Loader=loader), problems, written_out)
    except _Stop:
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problems.add(None, f"is no YAML: {line}{error.problem or error.context}")
        return None
    except (yaml.YAMLError, UnicodeError) as error:
        problems.add(None, f"is no YAML: {str(error).splitlines()[0]}")
        return None
    return document if len(problems.found) == before else None


class _Open:
    """A list or mapping that is being filled."""

    __slots__ = ("anchor", "key", "merges", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = _NO_KEY
        self.merges: list[Any] = []
        self.size = 1


def _build(yaml: Any, events: Iterator[Any], problems: Problems, left: int) -> Any:
    scalar, alias = yaml.ScalarEvent, yaml.AliasEvent
    starts = {yaml.SequenceStartEvent: list, yaml.MappingStartEvent: dict}
    ends = {yaml.SequenceEndEvent, yaml.MappingEndEvent}
    anchors: dict[str, tuple[Any, int]] = {}
    root = _Open([], None)
    stack: list[_Open] = []
    top = root
    allowed = left
    for event in events:
        kind = type(event)
        merge = False
        size = 1
        if kind is scalar:
            _check_tag(event, top, stack, problems)
            value = event.value
            if event.implicit[0]:
                if value in _NULL:
                    value = None
                merge = value == "<<"
            if event.anchor is not None:
                anchors[event.anchor] = value, 1
        elif kind in starts:
            _check_tag(event, top, stack, problems)
            if len(stack) >= _DEPTH:
                problems.add(_place(top, stack), f"is nested deeper than {_DEPTH} levels")
                raise _Stop
            stack.append(top)
            top = _Open(starts[kind](), event.anchor)
            continue
        elif kind in ends:
            done, top = top, stack.pop()
            value, size = done.value, done.size
            for merged in done.merges:
                _merge(value, merged, top, stack, problems)
            if done.anchor is not None:
                anchors[done.anchor] = value, size
        elif kind is alias:
            if event.anchor not in anchors:
                name = show(event.anchor)
                problems.add(_place(top, stack), f"no finished node has the anchor {name}")
                raise _Stop
            value, size = anchors[event.anchor]
            left -= size
            if left < 0:
                problems.add(_place(top, stack), f"aliases stand for more than {allowed:,} parts")
                raise _Stop
        else:
            continue
        top.size += size
        _put(top, value, merge, stack, problems)
    documents = [each for each in root.value if each is not None]  # "---" may begin an empty one
    if not documents:
        return None
    if len(documents) > 1:
        where = configuration_in(root.value)
        more = f": {where}" if where else ""
        problems.add(None, f"has {len(documents)} YAML documents, allowed is one{more}")
    return documents[0]


def _put(top: _Open, value: Any, merge: bool, stack: list[_Open], problems: Problems) -> None:
    if type(top.value) is list:
        top.value.append(value)
    elif top.key is _NO_KEY:
        if merge:
            top.key = _Merge
        elif isinstance(value, (list, dict)):
            problems.add(_place(top, stack), f"has {show(value)} as a key")
            raise _Stop
        else:
            top.key = "" if value is None else value
    else:
        if top.key is _Merge:
            top.merges.append(value)
        elif top.key in top.value:
            problems.add(_place(top, stack), "the key is given twice")
        else:
            top.value[top.key] = value
        top.key = _NO_KEY


class _Merge:
    """The key ``<<``."""


def _merge(into: Any, merged: Any, top: _Open, stack: list[_Open], problems: Problems) -> None:
    for source in merged if isinstance(merged, list) else [merged]:
        if isinstance(source, dict):
            for key, value in source.items():
                into.setdefault(key, value)
        else:
            problems.add(_place(top, stack), f"<< must name mappings, not {show(source)}")


def _check_tag(event: Any, top: _Open, stack: list[_Open], problems: Problems) -> None:
    if event.tag is not None and event.tag not in _TAGS and event.tag != "!":
        problems.add(_place(top, stack), f"has the unknown tag {show(event.tag)}")


def _place(top: _Open, stack: list[_Open]) -> Place:
    place: Place = None
    for level in [*stack[1:], top] if stack else []:
        if type(level.value) is list:
            place = place, len(level.value)
        elif level.key is not _NO_KEY:
            place = place, "<<" if level.key is _Merge else level.key
    return place
