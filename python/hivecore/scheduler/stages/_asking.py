"""Calls that all stages together pass to one stage, if there is such a stage."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

__all__ = ["asks"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")


def asks(
    kind: type[_S], method: Callable[Concatenate[_S, _P], _R], otherwise: _R
) -> Callable[Concatenate[Any, _P], _R]:
    """A method of all stages that calls the method of one stage.

    :param kind: the class of that stage.
    :param otherwise: returned if there is no such stage.
    """
    name = method.__name__

    @wraps(method)
    def ask(stages: Any, /, *args: Any) -> Any:
        stage = stages.of_kind.get(kind)
        return otherwise if stage is None else getattr(stage, name)(*args)

    return cast(Callable[Concatenate[Any, _P], _R], ask)
