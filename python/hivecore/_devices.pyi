from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

@disjoint_base
class KernelObject:
    def check(self) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __sizeof__(self) -> int: ...

_Charge: TypeAlias = tuple[int, int, Sequence[int], int, int, int]
_KnownCharge: TypeAlias = tuple[int, int, tuple[int, ...], int, int, int]

@final
class SharedMinors: ...

@final
class Query:
    def __new__(
        cls,
        needs: Iterable[tuple[Any, ...]],
        joint: Sequence[int],
        same_switch: bool,
        partition: int,
        bandwidth: int,
        isolation: int,
        models: Iterable[int],
        links: int = 0,
    ) -> Self: ...
    def __sizeof__(self) -> int: ...

@final
class Plan:
    def __init__(self, node: int, charges: Iterable[_Charge], idle: bool) -> None: ...
    @property
    def node(self) -> int: ...
    @property
    def idle(self) -> bool: ...
    @property
    def charges(self) -> list[_KnownCharge]: ...
    def minors(self, types: tuple[str, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]: ...

@final
class Choice:
    def __new__(cls, masks: Sequence[int]) -> Self: ...

@final
class DeviceKernel(KernelObject):
    def __init__(self) -> None: ...
    def add_shape(
        self,
        devices: Iterable[tuple[Any, ...]],
        partitions: Iterable[tuple[int, int, int, int]],
        honor: bool,
        isolation: int,
        model: int,
        sharing: tuple[bool, Sequence[int], Sequence[tuple[int, Sequence[int]]]] | None,
        links: Sequence[int] | None = None,
    ) -> int: ...
    def drop_unused_shapes(self) -> list[int]: ...
    def set_node(self, node: int, shape: int, healthy: Sequence[int]) -> None: ...
    @property
    def nodes(self) -> int: ...
    @property
    def states(self) -> int: ...
    def commit(self, plan: Plan) -> int: ...
    def charge(self, node: int, charges: Iterable[_Charge]) -> int: ...
    def refund(self, owner: int) -> None: ...
    def recharge(self, owner: int, charges: Iterable[_Charge]) -> None: ...
    def node_of(self, owner: int) -> int: ...
    def charges_of(self, owner: int) -> list[_KnownCharge]: ...
    def owners(self, node: int) -> list[int]: ...
    def mark(self) -> int: ...
    def rewind(self, number: int) -> None: ...
    def keep(self, number: int) -> None: ...
    def set_mix(self, tasks: Iterable[tuple[Any, ...]]) -> bool: ...
    def fragmentation(self, node: int) -> int: ...
    @property
    def most_memory(self) -> int: ...
    def filter(
        self, query: Query, policy: int, nodes: npt.ArrayLike | None = None
    ) -> tuple[
        npt.NDArray[np.int8], npt.NDArray[np.int8], npt.NDArray[np.bool_], npt.NDArray[np.int64]
    ]: ...
    def capacity(
        self,
        query: Query,
        policy: int,
        most: int,
        nodes: npt.ArrayLike | None = None,
        first: Query | None = None,
        before: int = 0,
    ) -> npt.NDArray[np.int32]: ...
    def schedule(
        self,
        query: Query,
        policy: int,
        nodes: npt.ArrayLike | None = None,
        seed: int = 0,
        number: int = 0,
    ) -> Plan | None: ...
    def examine(
        self,
        query: Query,
        policy: int,
        node: int,
        visible: Choice | Sequence[int] | None = None,
        without: Iterable[int] = (),
        plan: bool = True,
        designated: Iterable[_Charge] = (),
        idle: bool = False,
    ) -> tuple[int, int, Plan | None]: ...
    def take(
        self,
        query: Query,
        policy: int,
        request: Any,
        owners: tuple[Any, ...],
        places: tuple[Any, ...],
        cluster: Any,
        decision: Any,
    ) -> list[Any] | tuple[str, int, Choice, int]: ...
    def take_best(
        self,
        query: Query,
        policy: int,
        request: Any,
        owners: tuple[Any, ...],
        nodes: npt.ArrayLike | None,
        cluster: Any,
        decision: Any,
    ) -> list[Any] | tuple[int, ...]: ...
    def refund_named(self, names: dict[str, None], book: Any) -> None: ...
    def is_possible(self, query: Query, nodes: npt.ArrayLike | None = None) -> bool: ...
    def through(
        self,
        query: Query,
        policy: int,
        owner: int,
        confined: int,
        seed: int = 0,
        number: int = 0,
    ) -> tuple[int, Plan | None, int, int]: ...
    def copy(self) -> DeviceKernel: ...
