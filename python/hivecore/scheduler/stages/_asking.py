"""Calls of a stage that a scheduler may lack: all stages together answer for it."""

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
    """The same method of all stages together.

    :param kind: the stage that has it.
    :param otherwise: what it returns without such a stage.
    """
    name = method.__name__

    @wraps(method)
    def ask(stages: Any, /, *args: Any) -> Any:
        stage = stages.of_kind.get(kind)
        return otherwise if stage is None else getattr(stage, name)(*args)

    return cast(Callable[Concatenate[Any, _P], _R], ask)
