"""Calls that all stages together pass to one stage, if there is such a stage."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

__all__ = ["answer", "asks"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")


def asks(
    kind: type[_S], method: Callable[Concatenate[_S, _P], _R], otherwise: _R
) -> Callable[Concatenate[Any, _P], _R]:
    """A method of all stages that calls the method of one stage, once `answer` has bound it.

    :param kind: the class of that stage.
    :param otherwise: returned if there is no such stage.
    """

    @wraps(method)
    def ask(stages: Any, /, *args: Any) -> Any:
        return otherwise

    ask.answers = kind, method.__name__  # type: ignore[attr-defined]
    return cast(Callable[Concatenate[Any, _P], _R], ask)


def answer(stages: Any) -> None:
    """Let the stages that there are, ``stages.of_kind``, answer for all together."""
    composed: Any = type(stages)
    for name, kind, call in _answers(composed):
        if kind in stages.of_kind:
            setattr(stages, name, getattr(stages.of_kind[kind], call))


@cache
def _answers(kind: type) -> list[tuple[str, type, str]]:
    """The methods of a class that `asks` has made, with the stage and its method."""
    methods = ((name, getattr(kind, name)) for name in dir(kind))
    return [(name, *method.answers) for name, method in methods if hasattr(method, "answers")]
