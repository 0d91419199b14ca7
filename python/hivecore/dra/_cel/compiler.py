"""Compiles a tree of nodes to a closure, and checks its types as CEL does.

When the last key of a path such as ``device.attributes["d"].name`` is known, the attribute is
recorded as used; any other use of a path counts as using everything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

from hivecore._arguments import show
from hivecore.dra._cel import closures
from hivecore.dra._cel.functions import ABSENT, COSTS, FUNCTIONS, KINDS, Maybe, pattern_of
from hivecore.dra._cel.parser import Node
from hivecore.dra._cel.types import BOOL, DYN, INT, STRING, Type, common
from hivecore.errors import CelRuntimeError, CelSyntaxError

__all__ = ["Compiler"]

_FIELDS = {"attributes": DYN, "capacity": Type("quantity")}
_SIMPLE = frozenset(map(Type, ("bool", "int", "uint", "double", "string", "semver", "quantity")))
_MACROS = {"map": (3, 4), "filter": (3,), "all": (3,), "exists": (3,), "exists_one": (3,)}


class _Part(NamedTuple):
    """A checked part; ``path`` is ("attributes",) or ("attributes", domain) while it is a path."""

    type: Type
    run: closures.Run
    constant: Any = ABSENT
    path: tuple[str, ...] = ()


_Scope: TypeAlias = Mapping[str, _Part]


class Compiler:
    """Compiles an expression; ``uses`` has what it reads by kind, ``None`` for everything."""

    def __init__(self) -> None:
        self.slots = 0
        self.uses: dict[str, set[tuple[str, str]] | None] = {name: set() for name in _FIELDS}

    def compile(self, root: Node) -> closures.Run:
        """Return the closure of an expression that yields a bool.

        :raises CelSyntaxError: types do not match, or a name is unknown.
        """
        scope = {"device": _Part(Type("device"), lambda f: None)}
        return _bool(root, self.value(root, scope)).run

    def value(self, node: Node, scope: _Scope) -> _Part:
        """Compile a part whose whole value is used."""
        part = self.part(node, scope)
        if part.path:
            self.uses[part.path[0]] = None
        return part

    def part(self, node: Node, scope: _Scope) -> _Part:
        """Compile a part, possibly a path of which only some keys are used."""
        kind = node.kind
        if kind == "constant":
            return _constant(Type(KINDS[type(node.name)]), node.name)
        if kind == "name":
            if node.name not in scope:
                raise CelSyntaxError(f"undeclared reference to {show(node.name)}", node.at)
            return scope[node.name]
        if kind.startswith(("select", "index")):
            return self.member(node, scope, "maybe" if kind[-1] == "?" else "get")
        if kind == "call":
            return self.call(node, scope)
        if kind == "method":
            return self.macro(node, scope) or self.method(node, scope)
        if kind == "in":
            return self.contains(node, scope)
        return self.operator(node, [self.value(part, scope) for part in node.parts])

    def operator(self, node: Node, parts: Sequence[_Part]) -> _Part:
        """Compile an operator or a literal, which uses all parts."""
        kind, runs = node.kind, [part.run for part in parts]
        if kind in ("&&", "||"):
            for part in parts:
                _bool(node, part)
            return _Part(BOOL, closures.joined(runs, kind == "||"))
        if kind == "ternary":
            _bool(node, parts[0])
            return _Part(_common(node, parts[1:]), closures.ternary(*runs))
        if kind in ("==", "!="):
            _common(node, parts)
            a, b = parts if type(parts[1].constant) is str else reversed(parts)
            is_simple = a.type == b.type and a.type in _SIMPLE
            run = closures.equality(a.run, b.run, b.constant, is_simple)
            return _Part(BOOL, run if kind == "==" else lambda f: not run(f))
        if kind == "list":
            type_ = Type("list", (_common(node, parts),))
            values = tuple([part.constant for part in parts])
            if ABSENT not in values:
                return _constant(type_, values)
            return _Part(type_, lambda f: tuple([run(f) for run in runs]))
        if kind == "map":
            key, value = _common(node, parts[::2]), _common(node, parts[1::2])
            if key.kind not in ("string", "int", "uint", "dyn"):
                raise CelSyntaxError(f"keys of type {key} are not supported", node.at)
            return _Part(Type("map", (key, value)), closures.map_of(runs[::2], runs[1::2]))
        return self.function(node, kind, parts)

    # --- members

    def member(self, node: Node, scope: _Scope, mode: str) -> _Part:
        """Compile access to a member: "get", "maybe" (an optional value) or "has"."""
        of, is_field = self.part(node.parts[0], scope), node.kind.startswith("select")
        if of.type.kind == "device" and is_field and mode != "maybe":
            field = self.field(node)
            return _constant(BOOL, True) if mode == "has" else field
        key = _constant(STRING, node.name) if is_field else self.value(node.parts[1], scope)
        if type(key.constant) is str and len(of.path) == 1 and mode != "has":
            path = (of.path[0], key.constant)
            domain = _Part(of.type.last, closures.names(*path), path=path)
            if mode == "get":
                return domain
            maybe = Type("optional", (domain.type,))
            return domain._replace(type=maybe, run=closures.optional(domain.run))
        held = of.type.last if of.type.kind == "optional" else of.type
        wanted = INT if held.kind == "list" else held.first
        if held.kind not in ("map", "list", "dyn") or (is_field and held.kind == "list"):
            raise CelSyntaxError(f"type {of.type} has no field", node.at)
        if common((wanted, key.type)) is None:
            raise CelSyntaxError(f"type {of.type} has no member by a key of {key.type}", node.at)
        find = self.finder(of, key)
        if mode == "has":
            return _Part(BOOL, lambda f: find(f) is not ABSENT)
        if mode == "maybe" or of.type.kind == "optional":
            return _Part(Type("optional", (held.last,)), closures.optional(find))
        return _Part(held.last, closures.required(find, key.run))

    def field(self, node: Node) -> _Part:
        """Compile a field of the device."""
        if node.name == "driver":
            return _Part(STRING, lambda f: f[1])
        if node.name == "allowMultipleAllocations":
            return _Part(BOOL, lambda f: f[0].allow_multiple_allocations)
        if node.name not in _FIELDS:
            raise CelSyntaxError(f"undefined field {show(node.name)} of the device", node.at)
        domain = Type("map", (STRING, _FIELDS[node.name]))
        type_ = Type("map", (STRING, domain))
        return _Part(type_, closures.domains(node.name), path=(node.name,))

    def finder(self, of: _Part, key: _Part) -> closures.Run:
        """Return a closure for a member or `ABSENT`; attributes and capacities need no map."""
        uses = self.uses[of.path[0]] if of.path else None
        if len(of.path) == 2 and type(key.constant) is str:
            if uses is not None:
                uses.add((of.path[1], key.constant))
            return closures.scalar(*of.path, key.constant)
        if of.path:
            self.uses[of.path[0]] = None
        return closures.finder(of.run, key.run)

    def contains(self, node: Node, scope: _Scope) -> _Part:
        """``in``."""
        left, right = self.value(node.parts[0], scope), self.part(node.parts[1], scope)
        if right.type.kind not in ("list", "map", "dyn") or not common(
            (left.type, right.type.first)
        ):
            _refuse(node, "in", (left, right))
        if len(right.path) == 2 and type(left.constant) is str:
            find = self.finder(right, left)
            return _Part(BOOL, lambda f: find(f) is not ABSENT)
        if right.path:
            self.uses[right.path[0]] = None
        return _Part(BOOL, closures.membership(left.run, right.run, right.constant))

    # --- functions and macros

    def call(self, node: Node, scope: _Scope) -> _Part:
        """Compile a function call."""
        if node.name == "has":
            if len(node.parts) != 1 or node.parts[0].kind != "select":
                raise CelSyntaxError("has() takes a selected field, as in has(a.b)", node.at)
            return self.member(node.parts[0], scope, "has")
        parts = [self.value(part, scope) for part in node.parts]
        if node.name == "dyn" and len(parts) == 1:
            return parts[0]._replace(type=DYN, path=())
        return self.function(node, node.name, parts)

    def method(self, node: Node, scope: _Scope) -> _Part:
        """Compile a method, or a function of a namespace."""
        name, receiver = f".{node.name}", node.parts[0]
        if receiver.kind == "name" and receiver.name not in scope:
            return self.qualified(node, f"{receiver.name}{name}", scope)
        parts = [self.value(part, scope) for part in node.parts]
        of, other, count = parts[0], parts[-1], len(parts)
        if name == ".includes" and count == 2:
            return _Part(BOOL, closures.inclusion(of.run, other.run))
        if of.type.kind in ("optional", "dyn") and (name, count) in closures.OPTIONAL:
            wanted = {".orValue": of.type.last, ".or": of.type}.get(name, other.type)
            if common((wanted, other.type)) is None:
                _refuse(node, name, parts)
            results = {".hasValue": BOOL, ".value": of.type.last}
            result = results.get(name) or _common(node, [of._replace(type=wanted), other])
            return _Part(result, closures.OPTIONAL[name, count](of.run, other.run))
        return self.function(node, name, parts)

    def qualified(self, node: Node, name: str, scope: _Scope) -> _Part:
        """Compile a function of a namespace."""
        parts = [self.value(part, scope) for part in node.parts[1:]]
        if name == "optional.none" and not parts:
            return _constant(Type("optional", (DYN,)), Maybe(ABSENT))
        if name == "optional.of" and len(parts) == 1:
            value = parts[0].run
            return _Part(Type("optional", (parts[0].type,)), lambda f: Maybe(value(f)))
        raise CelSyntaxError(f"{show(name)} is unknown, or not supported here", node.at)

    def function(self, node: Node, name: str, parts: Sequence[_Part]) -> _Part:
        """Compile a function or an operator of the table."""
        if name not in FUNCTIONS:
            shown = show(name.lstrip("."))
            raise CelSyntaxError(f"the function {shown} is unknown, or not supported here", node.at)
        given = [part.type.kind for part in parts]
        fitting = {
            kinds: overload
            for kinds, overload in FUNCTIONS[name].items()
            if len(kinds) == len(given)
            and all(g in (kind, "dyn") for kind, g in zip(kinds, given, strict=True))
        }
        of_texts = name == ".join" and common((parts[0].type.last, STRING)) is not None
        if not fitting or (name == ".join" and not of_texts):
            _refuse(node, name, parts)
        results = {result for result, _ in fitting.values()}
        result = results.pop() if len(results) == 1 else DYN
        if name == "+" and result.kind == "list":
            result = _common(node, parts)
        constants = [part.constant for part in parts]
        if name in (".matches", "matches") and type(constants[1]) is str:
            try:
                pattern_of(constants[1])
            except ValueError as error:
                raise CelSyntaxError(str(error), node.at) from None
        run = closures.call(name, fitting, [part.run for part in parts], "dyn" not in given)
        if ABSENT not in constants and name not in COSTS:
            try:
                return _constant(result, run([]))
            except CelRuntimeError:
                pass  # an error only when it is evaluated
        return _Part(result, run)

    def macro(self, node: Node, scope: _Scope) -> _Part | None:
        """Compile a macro; ``None`` if it is not one."""
        name, parts = node.name, node.parts
        if name == "bind" and parts[0][:2] == ("name", "cel"):
            return self.bind(node, scope)
        if name not in _MACROS:
            return None
        if len(parts) not in _MACROS[name]:
            raise CelSyntaxError(f"{name}() with {len(parts) - 1} parts is not supported", node.at)
        of = self.value(parts[0], scope)
        if of.type.kind not in ("list", "map", "dyn"):
            _refuse(node, name, [of])
        inner, slot = self.variable(parts[1], of.type.first, scope)
        tests = [self.value(part, inner) for part in parts[2:]]
        change = tests.pop() if name == "map" else None
        for test in tests:
            _bool(node, test)
        cost = 1 + sum(part.size for part in parts[2:])
        loop = closures.Loop(of.run, slot, cost, tests[0].run if tests else None)
        if name in ("all", "exists"):
            return _Part(BOOL, loop.quantifier(name == "exists"))
        collect = loop.collection(change and change.run)
        if name == "exists_one":
            return _Part(BOOL, lambda f: len(collect(f)) == 1)
        return _Part(Type("list", (change.type if change else of.type.first,)), collect)

    def variable(self, node: Node, type_: Type, scope: _Scope) -> tuple[dict[str, _Part], int]:
        """Return the scope with a new variable, and its slot in the frame."""
        if node.kind != "name":
            raise CelSyntaxError("a variable must be a simple name", node.at)
        slot = closures.SLOTS + self.slots
        self.slots += 1
        return {**scope, node.name: _Part(type_, closures.variable(slot))}, slot

    def bind(self, node: Node, scope: _Scope) -> _Part:
        """``cel.bind``; a path remains a path under its new name."""
        if len(node.parts) != 4:
            raise CelSyntaxError("cel.bind() takes a variable, its value, an expression", node.at)
        init = self.part(node.parts[2], scope)
        inner, slot = self.variable(node.parts[1], init.type, scope)
        if init.path or init.constant is not ABSENT:
            return self.part(node.parts[3], {**inner, node.parts[1].name: init})
        body = self.part(node.parts[3], inner)
        if body.constant is not ABSENT:
            return body
        return body._replace(run=closures.binding(init.run, slot, body.run))


def _common(node: Node, parts: Sequence[_Part]) -> Type:
    shared = common([part.type for part in parts])
    if shared is None:
        _refuse(node, "?:" if node.kind == "ternary" else node.kind, parts)
    return shared


def _bool(node: Node, part: _Part) -> _Part:
    if part.type not in (BOOL, DYN):
        raise CelSyntaxError(f"a bool is needed, not {part.type}", node.at)
    return part


def _refuse(node: Node, name: str, parts: Sequence[_Part]) -> NoReturn:
    given = ", ".join(str(part.type) for part in parts)
    raise CelSyntaxError(f"no such overload: {name.lstrip('.')} of ({given})", node.at)


def _constant(type_: Type, value: Any) -> _Part:
    return _Part(type_, lambda f: value, value)
