"""Docstrings as Markdown, for mkdocstrings.

A docstring here is plain text with fields (``:param x: ...``) and examples without a fence. Fields
become lists and examples get fences, where they stand. What is native has its signature in a stub
and its docstring in the module.
"""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import griffe
import msgspec

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "hivecore"

_FIELD = re.compile(r":(param|ivar|raises?|returns?)(?: +([^:]*))?: *(.*)")
_MID_LINE = re.compile(r"(?<=[.`]) +(?=:(?:param|ivar|raises?|returns?)\b)")
_POWER = re.compile(r"(\d)\*\*(\d)")
_ROOM = re.compile(r"\b(?:\w+\.)+(?=\w)")
_TITLES = {"param": "Parameters", "ivar": "Attributes", "raises": "Raises", "returns": "Returns"}


def markdown(text: str) -> str:
    """The docstring with lists for its fields and fences around its examples."""
    lines: list[str] = []
    title = ""
    inside = False  # of an example: it goes from a prompt to the next empty line
    for line in _MID_LINE.sub("\n", text).splitlines():
        field = _FIELD.match(line)
        if inside:
            if not line:
                inside = False
                lines.append("```")
            lines.append(line)
        elif line.startswith(">>> "):
            inside = True
            lines += ["", "```pycon", line]
        elif field:
            kind, names, said = field.groups()
            said = _POWER.sub(r"\1\*\*\2", said)
            kind = {"raise": "raises", "return": "returns"}.get(kind, kind)
            if title != kind:
                title = kind
                lines += ["", f"**{_TITLES[kind]}**", ""]
            named = ", ".join(f"`{name.strip()}`" for name in (names or "").split(",") if name)
            lines.append(f"- {named}: {said}" if named else f"- {said}")
        else:
            line = _POWER.sub(r"\1\*\*\2", line)
            if line and not line.startswith(" "):
                title = ""
            lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


class Docstrings(griffe.Extension):
    """Mends what is shown of classes, functions and properties."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give it the docstring to be shown; a class shows its arguments."""
        native = (PACKAGE / f"{obj.path.split('.')[1]}.pyi").exists() if "." in obj.path else False
        if native:
            obj.labels -= {"method descriptor", "builtin"}
        text = obj.docstring.value if obj.docstring else _native(obj.path) if native else None
        if text is None and obj.is_attribute:
            text = _comment(obj)
        if text is not None and not obj.name.startswith("__"):
            text = text.partition("\n--\n\n")[2] or text
            obj.docstring = griffe.Docstring(markdown(text), parent=obj)
        maker = obj.members.get("__new__")
        if obj.is_class and maker and not maker.is_alias and "__init__" not in obj.members:
            obj.del_member("__new__")
            maker.name = "__init__"
            maker.docstring = None
            if native and isinstance(maker, griffe.Function):
                maker.parameters = _arguments(*obj.path.split(".")[1:])
            obj.set_member("__init__", maker)
        init = obj.members.get("__init__")
        bare = isinstance(init, griffe.Function) and len(init.parameters) == 1
        if bare and "raise TypeError" in init.source:  # only the library makes it
            obj.del_member("__init__")

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Show what classes have from elsewhere: members of private bases, a record's arguments."""
        own = f"{pkg.path}."
        for alias in [pkg.members.get(str(name)) for name in pkg.exports or ()]:
            if isinstance(alias, griffe.Alias) and alias.target_path.startswith(own):
                shown = alias.final_target
                for depth, base in enumerate(shown.mro() if shown.is_class else (), 1):
                    if base.path.startswith(own) and base.name not in pkg.exports:
                        _take_over(shown, base, depth)
                _show_fields(shown)
        for room in pkg.members.values():
            if isinstance(room, griffe.Module):
                self.on_package(pkg=room)


@cache
def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines()


def _comment(obj: griffe.Object) -> str | None:
    """What the lines `#: ...` above a constant or an alias say."""
    if obj.filepath.suffix != ".py" or obj.name.startswith("_"):
        return None
    lines = _lines(obj.filepath)
    text: list[str] = []
    for line in reversed(lines[: (obj.lineno or 1) - 1]):
        if not line.strip().startswith("#:"):
            break
        text.insert(0, line.strip().removeprefix("#:").strip())
    return " ".join(text) or None


def _take_over(shown: griffe.Class, base: griffe.Class, depth: int) -> None:
    for name, member in list(base.members.items()):
        if name not in shown.members and not member.is_alias:
            member.lineno = (member.lineno or 0) - 10_000 * depth  # the order on the page
            shown.set_member(name, member)


def _show_fields(shown: griffe.Object) -> None:
    """A record is made from its fields, which it and its bases declare."""
    thing = getattr(importlib.import_module(shown.module.path), shown.name, None)
    if not (isinstance(thing, type) and issubclass(thing, (msgspec.Struct, tuple))):
        return
    if "__init__" in shown.members:
        return
    hints = get_type_hints(thing)
    parameters = []
    for field in inspect.signature(thing).parameters.values():
        default = "{}" if repr(field.default) == "<factory>" else repr(field.default)
        parameters.append(
            griffe.Parameter(
                field.name,
                kind=griffe.ParameterKind(field.kind.description),
                annotation=_ROOM.sub("", inspect.formatannotation(hints[field.name])),
                default=None if field.default is field.empty else default,
            )
        )
    init = griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
    shown.set_member("__init__", init)


def _native(path: str) -> str | None:
    module, *names = path.removeprefix("hivecore.").split(".")
    thing: Any = importlib.import_module(f"hivecore.{module}")
    for name in names:
        thing = inspect.getattr_static(thing, name, None)
    return inspect.getdoc(thing) if thing is not None else None


@cache
def _stub(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse((PACKAGE / f"{module}.pyi").read_text("utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _arguments(module: str, name: str) -> griffe.Parameters:
    """The parameters of a native class, from its stub; none if it says nothing of them."""
    written = _stub(module)[name].body if name in _stub(module) else []
    makers = [
        node.args
        for node in written
        if isinstance(node, ast.FunctionDef) and node.name in ("__new__", "__init__")
    ]
    if not makers:
        return griffe.Parameters()
    maker = makers[0]
    kinds = griffe.ParameterKind
    plain = [*maker.posonlyargs, *maker.args]
    defaults = [*[None] * (len(plain) - len(maker.defaults)), *maker.defaults]
    rows = [(kinds.positional_or_keyword, *row) for row in zip(plain, defaults, strict=True)]
    named = zip(maker.kwonlyargs, maker.kw_defaults, strict=True)
    rows += [(kinds.keyword_only, *row) for row in named]
    return griffe.Parameters(
        *(
            griffe.Parameter(
                argument.arg,
                kind=kind,
                annotation=ast.unparse(argument.annotation) if argument.annotation else None,
                default=ast.unparse(default) if default else None,
            )
            for kind, argument, default in rows
        )
    )
