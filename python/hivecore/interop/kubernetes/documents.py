"""Objects of Kubernetes, however they come: one, several, lists of them, or YAML text."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show

__all__ = ["Objects", "check_is_object", "check_kind", "named_object", "objects_of", "read_yaml"]

_MOST_ALIASED = 1_000_000  # values
#: lines that kubectl may print before objects
_WARNINGS = re.compile(r"\A\s*(?:Warning: [^\n]*\n\s*)+")
_BLANK = re.compile(r"\s*")
#: An object or a list of them as plain data, several of these, or YAML text.
Objects = str | Mapping[str, Any] | Iterable[Mapping[str, Any]]


def objects_of(given: Objects, name: str) -> list[Field]:
    """The objects one by one, each with its path; lists are taken apart.

    :param given: see `Objects`. Empty documents of a text are left out, and a list there is as good
        as one document for each, as are values of JSON one after another. An entry of a PodList
        without a kind is a Pod, and so on.
    :param name: what messages call it.
    :raises ValueError: the text is no YAML.
    :raises TypeError: something is no object.
    :raises ImportError: it is text, and PyYAML is not there.

    >>> from hivecore.interop.kubernetes.documents import objects_of
    >>> pods = {"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Node"}]}
    >>> [one.path for one in objects_of([pods, {"kind": "Pod"}], "objects")]
    ['objects[0].items[0]', 'objects[0].items[1]', 'objects[1]']
    """
    if isinstance(given, str):
        documents = read_yaml(Field(given, name))
        many = len(documents) > 1
        fields = [
            Field(document, f"{name}[{i}]" if many else "") for i, document in enumerate(documents)
        ]
        fields = [
            entry
            for field in fields
            for entry in (field.entries() if isinstance(field.value, list) else [field])
            if entry.value is not None
        ]
    elif isinstance(given, Mapping):
        fields = [Field(given)]
    elif isinstance(given, Iterable):
        fields = [Field(document, f"{name}[{i}]") for i, document in enumerate(given)]
    else:
        raise TypeError(f"{name} must be objects of Kubernetes, not {show(given)}")
    return [item for field in fields for item in _taken_apart(field)]


def check_is_object(document: Mapping[str, Any]) -> None:
    """Raise a `ValueError` if a document is none of Kubernetes' objects: it has neither a kind nor
    metadata.
    """
    if "cluster" in document and not document.get("kind"):
        raise ValueError(
            "is a cluster file, see `hivecore validate`, and has no Kubernetes objects"
        )
    if not (document.get("kind") or "metadata" in document):
        raise ValueError("a document without a kind is no object of Kubernetes")


def check_kind(field: Field, kind: str, versions: Sequence[str]) -> None:
    """Raise a `ValueError` if an object says that it is of another kind, or of no such version."""
    for key, allowed in (("apiVersion", versions), ("kind", (kind,))):
        said = field[key]
        if not said.absent and said.text() not in allowed:
            rule = f"one of {', '.join(allowed)}" if len(allowed) > 1 else repr(allowed[0])
            raise said.error(f"must be {rule}, not {show(said.text())}")


def _taken_apart(field: Field) -> Iterator[Field]:
    if not isinstance(field.value, Mapping):
        raise TypeError(
            f"{field.path or 'the document'} must be an object, not {show(field.value)}"
        )
    kind = field["kind"].text()
    if "items" not in field.value or not kind.endswith("List"):
        yield field
        return
    of_items = kind.removesuffix("List")
    for item in field["items"].entries():
        if not isinstance(item.value, Mapping):
            raise TypeError(f"{item.path} must be an object, not {show(item.value)}")
        if of_items and not item.value.get("kind"):
            yield Field({**item.value, "kind": of_items}, item.path)
        else:
            yield item


def read_yaml(text: Field) -> list[Any]:
    """The documents of a YAML text. If it is JSON, it is read much faster.

    :raises ValueError: it is no YAML, or a key is there twice.
    :raises ImportError: PyYAML is not there.
    """
    plain = text.text().removeprefix("\ufeff")  # the byte order mark that editors may write
    plain = _WARNINGS.sub(lambda lines: "\n" * lines[0].count("\n"), plain)
    if plain.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):  # YAML that begins so, or it says where
            return list(_values_of_json(plain))
    try:
        import yaml
    except ImportError:
        raise ImportError("reading YAML needs PyYAML: pip install pyyaml") from None
    try:
        mistake = _mistake_of_aliases(plain) if "*" in plain else ""
        if not mistake:
            return list(yaml.load_all(plain, Loader=_loader()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise text.error(f"is no YAML: {where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise text.error(f"is no YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise text.error("is nested too deeply") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # What PyYAML stumbles over, such as `!!bool perhaps`.
        raise text.error("is no YAML: a value is not what its tag says") from None
    raise text.error(mistake)


def _mistake_of_aliases(plain: str) -> str:
    """Return what is wrong with a text if its aliases stand for too much, else ""."""
    import yaml

    sizes: dict[str, int] = {}  # by anchor
    opened: list[tuple[str | None, int]] = []  # with the number of values before
    values = aliased = 0
    for event in yaml.parse(plain, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()
        elif isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            if any(name == anchor for anchor, _ in opened):
                return f"the alias {show(name)} stands for what it is in"
            aliased += sizes.get(name, 0)
            values += sizes.get(name, 0)
            if aliased > _MOST_ALIASED:
                return f"aliases stand for more than {_MOST_ALIASED:,} values"
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values))
            values += 1
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = values - before
    return ""


def _values_of_json(plain: str) -> Iterator[Any]:
    """The values of a text, one after another, as several calls of kubectl print them."""
    decoder, at, plain = json.JSONDecoder(object_pairs_hook=_mapping), 0, plain.strip()
    while at < len(plain):
        value, at = decoder.raw_decode(plain, at)
        yield value
        at = _BLANK.match(plain, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key is there twice")
    return mapping


@cache
def _loader() -> Any:
    """PyYAML's safe loader, which does not take one of two equal keys for both.

    The one in C is no choice: text that is nested deeply enough ends the process.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                    if (key.tag, key.value) in keys:
                        message = f"the key {show(key.value)} is there twice"
                        raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
                    keys.add((key.tag, key.value))
            return super().construct_mapping(node, deep)

    return Loader


@contextmanager
def named_object(field: Field, kind: str) -> Iterator[None]:
    """Errors of what is read of this object name it.

    >>> from hivecore.interop.kubernetes.documents import named_object
    >>> team = Field({"metadata": {"name": "team-a"}, "spec": {"max": 3}})
    >>> with named_object(team, "ElasticQuota"):
    ...     team["spec"]["max"].items()
    Traceback (most recent call last):
    TypeError: ElasticQuota 'team-a': spec.max must be a mapping, not 3
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        name = _name(field.value)
        prefix = f"{kind} {name}: " if name else f"{kind}: "
        raise (TypeError if isinstance(error, TypeError) else ValueError)(
            f"{prefix}{error}"
        ) from None


def _name(value: Any) -> str:
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return show(name) if isinstance(name, str) and name else ""
