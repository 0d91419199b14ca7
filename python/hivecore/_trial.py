"""Changes that are undone at the end of a ``with`` block."""

from types import TracebackType
from typing import Any, Protocol

from hivecore._common import UndoLog

__all__ = ["LoggedTrials", "Transaction", "Trial", "Trials", "UndoLog"]


class _Undoable(Protocol):
    _lock: Any

    def _mark(self) -> Any: ...
    def _rewind(self, mark: Any) -> None: ...
    def _keep(self, mark: Any) -> None: ...


class Trial:
    """The context that `Trials.trial` returns; it can be entered once."""

    __slots__ = ("_mark", "_object")

    def __init__(self, object: _Undoable) -> None:
        self._object: _Undoable | None = object

    def __enter__(self) -> None:
        if self._object is None or hasattr(self, "_mark"):
            raise RuntimeError("a trial can be entered once; ask for another one")
        lock = self._object._lock
        lock.__enter__()
        try:
            self._mark = self._object._mark()
        except BaseException:
            lock.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._object is None or not hasattr(self, "_mark"):
            raise RuntimeError("this trial is not under way")
        self._end(self._object, error)
        self._object._lock.__exit__(None, None, None)
        self._object = None

    def _end(self, object: _Undoable, error: BaseException | None) -> None:
        object._rewind(self._mark)


class Transaction(Trial):
    """A trial whose changes stay unless an exception ends it."""

    __slots__ = ()

    def _end(self, object: _Undoable, error: BaseException | None) -> None:
        (object._keep if error is None else object._rewind)(self._mark)


class Trials:
    """An object whose changes can be undone.

    It has ``_lock``, ``_mark``, ``_rewind`` and ``_keep``.
    """

    __slots__ = ()

    def trial(self) -> Trial:
        """A context whose changes to this object are undone when it ends, also by an exception.

        Inside, the object is used as ever; decisions that were made there can be looked at later,
        but the changes are gone. Trials nest. Other threads wait until the trial has ended; a copy
        of the object is independent of it.

        :raises RuntimeError: at the end, if another trial that was begun later has not ended.

        Cost: proportional to the changes that are undone, not to the size of the object.

        >>> from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
        >>> nodes = Chain(["gpu", "node"], fanouts=[8], roots=1)
        >>> cluster = CellCluster(ClusterSpec({"H100": nodes}, {"a": {"H100": {"node": 1}}}))
        >>> cluster.commit(cluster.schedule(AffinityGroup("train", "a", [(1, 8)])))
        >>> with cluster.trial():
        ...     cluster.release("train")
        ...     cluster.fits(AffinityGroup("tune", "a", [(1, 8)]))
        True
        >>> cluster.groups()
        ('train',)
        """
        return Trial(self)  # type: ignore[arg-type]


class LoggedTrials(Trials):
    """`Trials` of a Python object, whose changes add their undo to ``_undo``."""

    __slots__ = ("_undo",)

    _undo: UndoLog

    def _mark(self) -> int:
        return self._undo.mark()

    def _rewind(self, mark: int) -> None:
        self._undo.rewind(mark)

    def _keep(self, mark: int) -> None:
        self._undo.end(mark)
