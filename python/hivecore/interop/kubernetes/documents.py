"""Objects of Kubernetes, however they come: one, several, lists of them, or YAML text."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show

__all__ = ["Objects", "named_object", "objects_of", "read_yaml"]

#: An object or a list of them as plain data, several of these, or YAML text.
Objects = str | Mapping[str, Any] | Iterable[Mapping[str, Any]]


def objects_of(given: Objects, name: str) -> list[Field]:
    """The objects one by one, each with its path; lists are taken apart.

    :param given: see `Objects`. Empty documents are left out.
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
        fields = [Field(one, f"{name}[{i}]" if many else "") for i, one in enumerate(documents)]
        fields = [one for one in fields if one.value is not None]
    elif isinstance(given, Mapping):
        fields = [Field(given)]
    elif isinstance(given, Iterable):
        fields = [Field(one, f"{name}[{i}]") for i, one in enumerate(given)]
    else:
        raise TypeError(f"{name} must be objects of Kubernetes, not {show(given)}")
    return [one for field in fields for one in _taken_apart(field)]


def _taken_apart(field: Field) -> Iterator[Field]:
    if not isinstance(field.value, Mapping):
        raise TypeError(
            f"{field.path or 'the document'} must be an object, not {show(field.value)}"
        )
    if "items" in field.value and field["kind"].text().endswith("List"):
        yield from field["items"].entries()
    else:
        yield field


def read_yaml(text: Field) -> list[Any]:
    """The documents of a YAML text.

    :raises ValueError: it is no YAML.
    :raises ImportError: PyYAML is not there.
    """
    try:
        import yaml
    except ImportError:
        raise ImportError("reading YAML needs PyYAML: pip install pyyaml") from None
    try:
        return list(yaml.safe_load_all(text.text()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise text.error(f"is no YAML: {where}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise text.error(f"is no YAML: {str(error).splitlines()[0]}") from None


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
        who = f"{kind} {name}: " if name else f"{kind}: "
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{who}{error}") from None


def _name(value: Any) -> str:
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return show(name) if isinstance(name, str) and name else ""
