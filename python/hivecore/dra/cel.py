"""Selectors of devices: CEL expressions, compiled once and evaluated on many devices.

The only variable is ``device``, with the fields ``driver``, ``attributes``, ``capacity`` and
``allowMultipleAllocations``. Attributes and capacities map domains to maps from names to values. A
missing domain is an empty map. A missing name is an error, which ``has()``, ``in`` and
``.?name.orValue(...)`` avoid.

Compared with Kubernetes, these are missing: bytes, timestamps, durations, messages and types as
values; booleans as keys of maps; optional elements of lists and maps; macros with two variables;
``optMap``, ``optFlatMap`` and ``optional.ofNonZeroValue``; names in backquotes; ``string(1.5)``;
the functions ``format``, ``quote`` and ``reverse`` of texts, and those for sets, lists (``sum``,
``isSorted``, ...), parts of texts (``find``, ``findAll``), mathematics, URLs, IP addresses and
CIDR; named classes of regular expressions (``[[:alpha:]]``, those of Unicode). Using them is a
compile-time error. Another `Evaluator`, such as one on the library ``cel-expr-python``, can then
replace `matches`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from hivecore._arguments import as_text
from hivecore.dra._cel.closures import STEPS, LimitError, Run
from hivecore.dra._cel.compiler import Compiler
from hivecore.dra._cel.functions import KINDS
from hivecore.dra._cel.parser import parse
from hivecore.dra.pools import PoolDevice
from hivecore.errors import CelRuntimeError, CelSyntaxError

__all__ = ["Evaluator", "Selector", "compile_selector", "matches"]

_SHORT = 512  # characters; shorter expressions have a larger cache

#: Whether a device satisfies an expression. Raises `SyntaxError` if it is not CEL, and any other
#: exception if the evaluation fails on the device.
Evaluator: TypeAlias = Callable[[str, PoolDevice], bool]


class Selector:
    """A compiled expression, as `compile_selector` returns it. Threads may share it.

    :param text: the expression.
    :raises CelSyntaxError: see `compile_selector`.

    Selectors are equal if their texts are.
    """

    __slots__ = ("_run", "_slots", "attributes", "capacities", "text")

    text: str
    """The expression."""
    attributes: frozenset[tuple[str, str]] | None
    """Domain and name of each attribute that the answer may depend on, besides the driver and
    ``allowMultipleAllocations``; ``None`` for any. A name without a domain belongs to the driver's
    domain.
    """
    capacities: frozenset[tuple[str, str]] | None
    """The same for capacities."""

    def __init__(self, text: str) -> None:
        compiler = Compiler()
        self._run: Run = compiler.compile(parse(text))
        self._slots = [None] * compiler.slots
        self.text = text
        attributes, capacities = compiler.uses["attributes"], compiler.uses["capacity"]
        self.attributes = None if attributes is None else frozenset(attributes)
        self.capacities = None if capacities is None else frozenset(capacities)

    def matches(self, device: PoolDevice) -> bool:
        """Whether a device satisfies the expression.

        :raises CelRuntimeError: the evaluation fails, uses an attribute of an unknown type, does
            not yield a bool, takes more than 1,000,000 steps, or creates a text or list of more
            than 65,536 parts.

        Cost: O(expression) without macros, at most 1,000,000 steps with them.
        """
        try:
            value = self._run([device.device, device.id.driver, STEPS, *self._slots])
        except LimitError as error:
            raise CelRuntimeError(str(error)) from None
        except RecursionError:
            raise CelRuntimeError("nested too deeply for the stack that is left") from None
        if value is True or value is False:
            return value
        raise CelRuntimeError(f"the result is of type {KINDS[type(value)]} instead of bool")

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"compile_selector({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_selector, (self.text,)


def _compile(text: str) -> Selector | tuple[str, int | None]:
    try:
        return Selector(text)
    except CelSyntaxError as error:
        return error.what, error.at


_short, _long = lru_cache(1024)(_compile), lru_cache(16)(_compile)


def compile_selector(text: str) -> Selector:
    """Compile an expression; recent results are cached.

    :param text: CEL, at most 10 KiB and 64 levels deep.
    :raises CelSyntaxError: it is not CEL, its types do not match, or it uses a part of CEL that is
        not supported: bytes, timestamps, durations, and what the page of device claims lists.
    :raises TypeError: the text is not a string.

    Source: CEL's language definition; Kubernetes' ``CELDeviceSelector``.

    >>> from hivecore.dra import Attribute, Device, DeviceId, PoolDevice, compile_selector
    >>> gpu = Device("gpu-0", {"type": Attribute(string="gpu")})
    >>> selector = compile_selector('device.attributes["gpu.example.com"].type == "gpu"')
    >>> selector.matches(PoolDevice(DeviceId("gpu.example.com", "n1", "gpu-0"), gpu))
    True
    >>> sorted(selector.attributes)
    [('gpu.example.com', 'type')]
    """
    text = as_text(text, "text")
    try:
        compiled = (_short if len(text) <= _SHORT else _long)(text)
    except RecursionError:
        raise CelSyntaxError("nested too deeply for the stack that is left") from None
    if isinstance(compiled, Selector):
        return compiled
    raise CelSyntaxError(*compiled)


def matches(expression: str, device: PoolDevice) -> bool:
    """Whether a device satisfies a CEL expression. This is the `Evaluator` used by default.

    :raises CelSyntaxError: see `compile_selector`.
    :raises CelRuntimeError: see `Selector.matches`.
    """
    return compile_selector(expression).matches(device)
