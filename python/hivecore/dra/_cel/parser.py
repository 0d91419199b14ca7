"""Parses text to a tree of nodes, by the grammar of CEL.

Nesting is limited in the parser and in the tree, so that no text exhausts Python's stack. A chain
of ``&&`` or ``||`` is a single node.
"""

import re
from math import isfinite
from typing import Any, NamedTuple

from hivecore._arguments import show
from hivecore.errors import CelSyntaxError

__all__ = ["Node", "Uint", "parse"]

_LONGEST = 10 * 1024  # bytes of an expression
_DEEPEST = 64  # levels of nesting
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\n\f\r]|//[^\n]*)+)
    |(?P<string>[rR](?:\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}|"[^"\r\n]*"|'[^'\r\n]*')
      |\"{3}(?s:[^\\]|\\.)*?\"{3}|'{3}(?s:[^\\]|\\.)*?'{3}
      |"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
    |(?P<bytes>[bB][rR]?["'])
    |(?P<double>(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+))
    |(?P<int>(?:0x[0-9a-fA-F]+|[0-9]+)[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|)"
)
_ESCAPED = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}
_CONSTANTS = {"true": True, "false": False, "null": None}
_KEYWORDS = ("true", "false", "null", "in")
_RESERVED = re.compile(  # allowed as fields
    "as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var"
    "|void|while"
)


class Uint(int):
    """An unsigned integer of CEL."""

    __slots__ = ()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class Node(NamedTuple):
    """A part of an expression.

    :param kind: "constant", "name", "select", "index", "call", "method", "list", "map", "ternary",
        or an operator; "select?" and "index?" give an optional value.
    :param name: the constant, name, field or function, or ``None``.
    :param parts: the operands; a method's first is the receiver, a map's are keys and values.
    :param at: its position in the text.
    :param depth: its number of levels.
    :param size: its number of nodes.
    """

    kind: str
    name: Any
    parts: "tuple[Node, ...]"
    at: int
    depth: int
    size: int


def parse(text: str) -> Node:
    """Return the tree of an expression.

    :raises CelSyntaxError: the text is not CEL, too long, or nested too deeply.
    """
    if len(text.encode(errors="replace")) > _LONGEST:
        raise CelSyntaxError("the expression has more than 10 KiB")
    parser = _Parser(_tokens(text))
    root = parser.expression()
    parser.expect("")
    return root


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise CelSyntaxError(f"unexpected {show(text[at])}", at)
        if match.lastgroup == "bytes":
            raise CelSyntaxError("bytes are not supported", at)
        if match.lastgroup != "space":
            tokens.append(_Token(match.lastgroup, match[0], at))
        at = match.end()
    return [*tokens, _Token("end", "", at)]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.next, self.depth = tokens, 0, 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.next]

    def accept(self, *signs: str) -> str:
        """Consume and return the next sign or ``in``, if it is one of these; else ""."""
        token = self.token
        if token.text not in signs or token.kind not in ("sign", "name"):
            return ""
        self.next += 1
        return token.text

    def expect(self, sign: str) -> None:
        token = self.token
        if token.text != sign or token.kind == "string":
            wanted = show(sign) if sign else "the end"
            raise CelSyntaxError(f"{self._shown()} instead of {wanted}", token.at)
        self.next += 1

    def _shown(self) -> str:
        return show(self.token.text) if self.token.text else "the end"

    def node(self, kind: str, name: Any, parts: "tuple[Node, ...]", at: int) -> Node:
        depth = 1 + max([part.depth for part in parts], default=0)
        if depth > _DEEPEST:
            raise CelSyntaxError(f"nested more than {_DEEPEST} levels deep", at)
        return Node(kind, name, parts, at, depth, 1 + sum([part.size for part in parts]))

    def expression(self) -> Node:
        self.depth += 1
        at = self.token.at
        if self.depth > _DEEPEST:
            raise CelSyntaxError(f"nested more than {_DEEPEST} levels deep", at)
        node = self.binary(1)
        if self.accept("?"):
            yes = self.binary(1)
            self.expect(":")
            node = self.node("ternary", None, (node, yes, self.expression()), at)
        self.depth -= 1
        return node

    def binary(self, lowest: int) -> Node:
        left = self.unary()
        while True:
            at = self.token.at
            level = _PRECEDENCE.get(self.token.text, 0)
            if level < lowest or not (sign := self.accept(self.token.text)):
                return left
            parts = [left, self.binary(level + 1)]
            while level < 3 and self.accept(sign):
                parts.append(self.binary(level + 1))
            left = self.node(sign, None, tuple(parts), at)

    def unary(self) -> Node:
        at, count = self.token.at, 0
        sign = self.accept("!", "-")
        while sign and self.token.kind == "sign" and self.accept(sign):
            count += 1
        if sign == "-" and count == 0 and self.token.kind in ("int", "double"):
            return self.member(self.number("-"))  # the least integer has no positive counterpart
        node = self.member(self.primary())
        if not sign or count % 2:  # two signs cancel
            return node
        return self.node("!" if sign == "!" else "negative", None, (node,), at)

    def member(self, node: Node) -> Node:
        while True:
            at = self.token.at
            if self.accept("."):
                maybe = self.accept("?")
                name = self.identifier(is_field=True)
                if not maybe and self.accept("("):
                    node = self.node("method", name, (node, *self.list(")")), at)
                else:
                    node = self.node(f"select{maybe}", name, (node,), at)
            elif self.accept("["):
                maybe = self.accept("?")
                node = self.node(f"index{maybe}", None, (node, self.expression()), at)
                self.expect("]")
            elif self.token.text == "{" and node.kind in ("name", "select"):
                raise CelSyntaxError("messages are not supported", at)
            else:
                return node

    def list(self, end: str) -> "tuple[Node, ...]":
        """Parse expressions up to the closing sign; only lists may end with a comma."""
        nodes: list[Node] = []
        while not self.accept(end):
            if nodes:
                self.expect(",")
                if end == "]" and self.accept(end):
                    break
            if end == "]" and self.token.text == "?":
                raise CelSyntaxError("optional elements are not supported", self.token.at)
            nodes.append(self.expression())
        return tuple(nodes)

    def map(self, at: int) -> Node:
        parts: list[Node] = []
        while not self.accept("}"):
            if parts:
                self.expect(",")
                if self.accept("}"):
                    break
            if self.token.text == "?":
                raise CelSyntaxError("optional entries are not supported", self.token.at)
            parts.append(self.expression())
            self.expect(":")
            parts.append(self.expression())
        return self.node("map", None, tuple(parts), at)

    def identifier(self, is_field: bool = False) -> str:
        kind, text, at = self.token
        is_reserved = text in _KEYWORDS or (not is_field and _RESERVED.fullmatch(text))
        if kind != "name" or is_reserved:
            raise CelSyntaxError(f"{self._shown()} instead of a name", at)
        self.next += 1
        return text

    def number(self, sign: str = "") -> Node:
        kind, text, at = self.token
        self.next += 1
        if kind == "double":
            if not isfinite(float(text)):
                raise CelSyntaxError(f"{show(sign + text)} exceeds 64 bits", at)
            return self.node("constant", float(sign + text), (), at)
        digits = text.rstrip("uU")
        value = int(digits, 16 if digits.startswith("0x") else 10) if len(text) < 99 else 2**99
        if digits != text and sign == "":
            value = Uint(value)
        lowest, above = (0, 2**64) if isinstance(value, Uint) else (-(2**63), 2**63)
        value = -value if sign else value
        if not lowest <= value < above or (sign and digits != text):
            raise CelSyntaxError(f"{show(sign + text)} exceeds 64 bits", at)
        return self.node("constant", value, (), at)

    def primary(self) -> Node:
        kind, text, at = self.token
        if kind in ("int", "double"):
            return self.number()
        if kind == "string":
            self.next += 1
            return self.node("constant", _unquoted(text, at), (), at)
        if text in _CONSTANTS:
            self.next += 1
            return self.node("constant", _CONSTANTS[text], (), at)
        if self.accept("("):
            node = self.expression()
            self.expect(")")
            return node
        if self.accept("["):
            return self.node("list", None, self.list("]"), at)
        if self.accept("{"):
            return self.map(at)
        self.accept(".")  # a leading dot means the root of all names
        name = self.identifier()
        if self.accept("("):
            return self.node("call", name, self.list(")"), at)
        return self.node("name", name, (), at)


def _unquoted(text: str, at: int) -> str:
    is_raw = text[0] in "rR"
    text = text[1:] if is_raw else text
    quotes = 3 if text[:3] in ('"""', "'''") else 1
    text = text[quotes:-quotes]
    if is_raw:
        return text

    def replaced(match: re.Match[str]) -> str:
        sign, *codes, octal = match.groups()
        if sign:
            return _ESCAPED.get(sign, sign)
        code = int(octal, 8) if octal else int(next(filter(None, codes), "110000"), 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise CelSyntaxError(f"no escape: {show(text[match.start() : match.start() + 2])}", at)
        return chr(code)

    return _ESCAPE.sub(replaced, text)
