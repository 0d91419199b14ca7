"""The rules of the house that a test can hold: what each room may include, import and leave out.

Each rule is a function from a source tree (or a module) to the list of its violations. It is used
twice: on this repository, where the list must be empty, and on a made-up tree, where it must not.
"""

import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import hivecore

ROOT = Path(__file__).resolve().parents[1]

in_source_tree = pytest.mark.skipif(
    not (ROOT / "src" / "cpp").is_dir(), reason="only the installed package is here"
)

SUBJECTS = (
    "caching",
    "cells",
    "devices",
    "dra",
    "gangs",
    "interleaving",
    "matching",
    "queues",
    "quotas",
    "replicas",
    "storage",
    "topology",
)
# room of the package -> the rooms that it may import; `reference` is for tests and benchmarks
ARROWS = {
    "errors": (),
    "decisions": ("errors",),
    **dict.fromkeys(SUBJECTS, ("errors", "decisions")),
    "interleaving": ("errors", "decisions", "matching"),
    "traces": ("errors",),
    "reference": ("errors",),
    "scheduler": ("errors", "decisions", *SUBJECTS),
    "verify": ("errors", "decisions", *SUBJECTS, "scheduler"),
    "sim": ("errors", "decisions", *SUBJECTS, "scheduler", "traces"),
    "interop": ("errors", "decisions", *SUBJECTS, "scheduler"),
    "cli": ("errors", "interop", "sim", "traces"),
    "__main__": ("cli",),
}
# Private modules of no subject.
COMMON = (
    *("hivecore._arguments.", "hivecore._ctrl_c.", "hivecore._quantities.", "hivecore._record."),
    *("hivecore._sealed.", "hivecore._stateful.", "hivecore._thousandths."),
)

# Classes that answer in several turns: others go on while they bind a pod, sleep or draw.
OF_SEVERAL_TURNS = (
    "hivecore.interop.hived.inspection.inspector.Inspector",
    "hivecore.interop.kubernetes.serving.extenders.HttpExtender",
)

# What may only shrink until it is gone: lines of classes that have more than 500; by room, reads of
# private names of other modules; modules that import each other, be it in a function.
MOST_LINES = 500  # of a class
REACHES = {"cells": 14, "devices": 7, "interop": 3, "quotas": 4, "scheduler": 22}

# column -> the one header of another column that it may include
SIDEWAYS = {"interleaving": "matching/matching.hpp", "sim": "storage/remote_io.hpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
EXTERN = re.compile(r'^\s*cdef\s+extern\s+from\s+["\']<?([^>"\'*]+)>?["\']', re.MULTILINE)
CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))", re.MULTILINE)


def columns(root: Path) -> list[str]:
    """The kernels: every folder of src/cpp but `common`."""
    folders = (path.name for path in (root / "src" / "cpp").iterdir() if path.is_dir())
    return sorted(set(folders) - {"common"})


def bindings(root: Path) -> dict[str, Path]:
    """The native modules by name: {"_cells": .../src/hivecore/_cells.pyx}."""
    files = (root / "src" / "hivecore").glob("_*.*")
    return {file.stem: file for file in files if file.suffix in (".pyx", ".cpp")}


def parts(root: Path, column: str) -> list[Path]:
    """What the binding of a column includes as text: src/hivecore/*.pxi and <column>/*.pxi."""
    folder = root / "src" / "hivecore"
    return sorted([*folder.glob("*.pxi"), *folder.glob(f"{column}/*.pxi")])


def python_sources(root: Path) -> list[tuple[str, Path]]:
    """The dotted name and the file of each module of the package."""
    files = []
    for file in sorted((root / "python").rglob("*.py")):
        parts = file.relative_to(root / "python").with_suffix("").parts
        files.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), file))
    return files


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def tree_of(file: Path) -> ast.Module:
    """The syntax of a Python file, which several rules look at."""
    return _tree(file.read_text("utf-8"))


@cache
def _nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(_tree(text)))


def nodes_of(file: Path) -> list[ast.AST]:
    """All parts of the syntax of a Python file."""
    return _nodes(file.read_text("utf-8"))


def imports(module: str, file: Path) -> set[str]:
    """The absolute names that a Python file imports; `from a import b` counts as a and a.b."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                source = importlib.util.resolve_name("." * node.level + source, package)
            names.add(source)
            names.update(f"{source}.{alias.name}" for alias in node.names)
    return names


# --- the native floors -------------------------------------------------------------------------


def python_in_kernels(root: Path) -> list[str]:
    """A kernel is usable from C++ as it is: it includes nothing of Python."""
    foreign = re.compile(r"Python\.h|(pybind11|numpy|nanobind|cython)/", re.IGNORECASE)
    return [
        f"{file.relative_to(root)} includes {header}"
        for file in sorted((root / "src" / "cpp").rglob("*.[ch]pp"))
        for header in INCLUDE.findall(file.read_text("utf-8"))
        if foreign.match(header)
    ]


def sideways_includes(root: Path) -> list[str]:
    """A kernel includes its own column, `common/`, and at most one face of another column."""
    kernels = root / "src" / "cpp"
    violations = []
    for file in sorted(kernels.rglob("*.[ch]pp")):
        column = file.relative_to(kernels).parts[0]
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text("utf-8"), re.M):
            near = header.startswith((f"{column}/", "common/")) or header == SIDEWAYS.get(column)
            if not near or ".." in header:
                violations.append(f"{file.relative_to(root)} includes {header}")
    return violations


def binding_reaches(root: Path) -> list[str]:
    """A binding and its parts include their own kernel's headers, and use no other binding."""
    violations = []
    for name, file in sorted(bindings(root).items()):
        column = name.removeprefix("_")
        others = set(columns(root)) - {column}
        text = "\n".join(part.read_text("utf-8") for part in [file, *parts(root, column)])
        for header in INCLUDE.findall(text) + EXTERN.findall(text):
            if header.split("/")[0] in others or ".." in header:
                violations.append(f"{file.name} includes {header}")
        for pair in CIMPORT.findall(text):
            module = pair[0] or pair[1]
            if module.split(".")[0] not in {"cython", "cpython", "libc", "libcpp", "numpy"}:
                violations.append(f"{file.name} cimports {module}")
        for other in sorted(set(bindings(root)) - {name}):
            if re.search(rf"\bhivecore\.{other}\b|\bfrom\s+\.\s+import\s+{other}\b", text):
                violations.append(f"{file.name} imports {other}")
    return violations


def missing_siblings(root: Path) -> list[str]:
    """A kernel has binding, stub, wrapper, twin, tests, a benchmark and its line in setup.py."""
    setup = tree_of(root / "setup.py")
    listed: dict[str, list[str]] = {}
    for node in setup.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "MODULES" and node.value:
            listed = ast.literal_eval(node.value)
    violations = []
    for column in columns(root):
        wanted = {
            "binding": [f"src/hivecore/_{column}.pyx", f"src/hivecore/_{column}.cpp"],
            "stub": [f"python/hivecore/_{column}.pyi"],
            "wrapper": [f"python/hivecore/{column}.py", f"python/hivecore/{column}/__init__.py"],
            "twin": [f"python/hivecore/reference/{column}{end}" for end in (".py", "/__init__.py")],
            "tests": [f"tests/{column}/test_*.py"],
            "benchmark": [f"bench/bench_{column}*.py"],
        }
        for what, patterns in wanted.items():
            if not any(path for pattern in patterns for path in root.glob(pattern)):
                violations.append(f"{column} has no {what}: {' or '.join(patterns)}")
        if column not in listed:
            violations.append(f"{column} is not in MODULES of setup.py")
        elif sideways := set(listed[column]) - {SIDEWAYS.get(column, "").split("/")[0]}:
            violations.append(f"setup.py links {column} with {', '.join(sorted(sideways))}")
    strangers = sorted(set(listed) - set(columns(root)) - {"common"})
    return violations + [f"setup.py lists {name}, which has no kernel" for name in strangers]


# --- the Python floor --------------------------------------------------------------------------


def imports_of_foreign_bindings(root: Path) -> list[str]:
    """Module (or package) X imports no binding but `_X`; so `interop` imports none."""
    violations, every = [], set(bindings(root)) - {"_common"}
    for module, file in python_sources(root):
        own = f"_{module.split('.')[1]}" if "." in module else ""
        imported = imports(module, file)
        for binding in sorted(every - {own}):
            if f"hivecore.{binding}" in imported:
                violations.append(f"{module} imports hivecore.{binding}")
    return violations


def imports_of_private_names(root: Path) -> list[str]:
    """`sim`, `traces` and `interop` import of the others only what a user could import.

    Checks of arguments, amounts, records and envelopes of saved states are everybody's.
    """
    violations = []
    for module, file in python_sources(root):
        room = ".".join(module.split(".")[:2])
        own = room.replace(".", "._")
        if room in {"hivecore.sim", "hivecore.traces", "hivecore.interop"}:
            violations += [
                f"{module} imports {name}"
                for name in sorted(imports(module, file))
                if name.startswith("hivecore.")
                and not f"{name}.".startswith((f"{room}.", f"{own}.", *COMMON))
                and any(re.match(r"_(?!_)", part) for part in name.split("."))
            ]
    return violations


def imports_against_the_arrows(root: Path) -> list[str]:
    """A room imports of the others only those that ARROWS lets it."""
    violations = []
    for module, file in python_sources(root):
        room = module.split(".")[1] if "." in module else ""
        if not room or room.startswith("_"):
            continue  # the package names its rooms, and what is private needs none
        if room not in ARROWS:
            violations.append(f"{room} is not in ARROWS")
            continue
        allowed = {f"hivecore.{other}" for other in (room, *ARROWS[room])}
        violations += [
            f"{module} imports {name}"
            for name in sorted(imports(module, file))
            if re.match(r"hivecore\.[a-z]", name) and ".".join(name.split(".")[:2]) not in allowed
        ]
    return violations


#: What of all stages together is one of them.
ONE_STAGE = re.compile(r"stages?\.(_\w+|quotas|place|devices|sharing|storage|part)$")


def names_of_single_stages(root: Path) -> list[str]:
    """Outside of its room of stages, the scheduler knows them all alike."""
    room = "hivecore.scheduler"
    return [
        f"{module}:{node.lineno} names a single stage"
        for module, file in python_sources(root)
        if module.startswith(f"{room}.") and not module.startswith(f"{room}.stages.")
        for node in nodes_of(file)
        if (isinstance(node, ast.Attribute) and ONE_STAGE.search(ast.unparse(node)))
        or (isinstance(node, ast.Call) and "Stage)" in ast.unparse(node).replace(",", ")"))
    ]


class _Turns:
    """Which methods of a class with a ``_lock`` look at the object's state only in their turn."""

    def __init__(self, of: ast.ClassDef, bases: list[ast.ClassDef]) -> None:
        self.own, self.methods = self._methods(of), {}
        for base in [*reversed(bases), of]:
            self.methods |= self._methods(base)

    def _methods(self, of: ast.ClassDef) -> dict[str, ast.FunctionDef]:
        functions = [node for node in of.body if isinstance(node, ast.FunctionDef)]
        return {node.name: node for node in functions if not self._is_static(node)}

    @staticmethod
    def _decorators(function: ast.FunctionDef) -> list[str]:
        return [ast.unparse(node) for node in function.decorator_list]

    def _is_static(self, function: ast.FunctionDef) -> bool:
        return bool({"staticmethod", "classmethod"} & set(self._decorators(function)))

    def keeps(self, name: str) -> bool:
        """Whether all that it does with the object is in a turn, or is a single call that is."""
        function = self.methods.get(name)
        if function is None:
            return True  # of a base class
        if "in_turn" in self._decorators(function):
            return True
        uses, turns = self._uses(function)
        if not uses:
            return True
        if turns or len(uses) > 1:
            return False
        used = uses[0]
        if not isinstance(used, ast.Attribute):
            return True  # an argument of a call
        return used.attr in self.methods and used.attr != name and self.keeps(used.attr)

    def _uses(self, function: ast.FunctionDef) -> tuple[list[ast.expr], int]:
        """What it does with `self` outside of its turns, and how many turns it has."""
        uses: list[ast.expr] = []
        turns = 0

        def visit(node: ast.AST) -> None:
            nonlocal turns
            if (
                isinstance(node, ast.With)
                and ast.unparse(node.items[0].context_expr) == "self._lock"
            ):
                turns += 1
                return
            if isinstance(node, ast.Call) and ast.unparse(node) == "type(self)":
                return
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                uses.append(node)
                return
            if isinstance(node, ast.Name) and node.id == "self":
                uses.append(node)
            for child in ast.iter_child_nodes(node):
                visit(child)

        for statement in function.body:
            visit(statement)
        return uses, turns


def looks_out_of_turn(root: Path) -> list[str]:
    """Public methods of a class with a ``_lock`` touch the object's state only while they have it.

    What is looked up before may be another thing when it is used.
    """
    violations = []
    classes = {name: (node, bases) for name, node, bases in classes_with_bases(root)}

    def above(name: str) -> list[str]:
        bases = [base for base in classes[name][1] if base in classes]
        return [kind for base in bases for kind in (base, *above(base))]

    for name, (node, _) in classes.items():
        bases = [classes[base][0] for base in above(name)]
        if name not in OF_SEVERAL_TURNS and any(map(has_lock, [node, *bases])):
            turns = _Turns(node, bases)
            violations += [
                f"{name}.{method}"
                for method in turns.own
                if (not method.startswith("_") or method.endswith("__"))
                and method not in ("__init__", "__new__", "__setstate__")
                and not turns.keeps(method)
            ]
    return violations


def classes_with_bases(root: Path) -> Iterator[tuple[str, ast.ClassDef, list[str]]]:
    """The name and the definition of each class of the package, and the names of its bases."""
    for module, file in python_sources(root):
        tree = tree_of(file)
        known = {
            alias.name: f"{node.module}.{alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                yield (
                    f"{module}.{node.name}",
                    node,
                    [known.get(base, f"{module}.{base}") for base in bases],
                )


def annotations_with_own_names(root: Path) -> list[str]:
    """A field's annotation reads no name of its class: Python 3.14 evaluates it only then, and
    takes the name for the field.
    """
    violations = []
    for name, node, _ in classes_with_bases(root):
        fields = [part for part in node.body if is_field(part)]
        own = {part.target.id for part in fields}
        own |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        violations += [
            f"{name}.{field.target.id} reads {read.id}"
            for field in fields
            for read in ast.walk(field.annotation)
            if isinstance(read, ast.Name) and read.id in own
        ]
    return violations


def has_lock(node: ast.ClassDef) -> bool:
    """Whether the class sets ``self._lock``."""
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == "_lock"
        and isinstance(part.ctx, ast.Store)
        and ast.unparse(part.value) == "self"
        for part in ast.walk(node)
    )


def large_classes(root: Path) -> list[str]:
    """A class has 500 lines at most."""
    lines = {name: node.end_lineno - node.lineno + 1 for name, node, _ in classes_with_bases(root)}
    return [f"{name} has {n} lines" for name, n in lines.items() if n > MOST_LINES]


def private_reaches(root: Path) -> dict[str, list[str]]:
    """By room, each read of a private name that its module neither defines nor has of ``self``."""
    violations: dict[str, list[str]] = {}
    for module, file in python_sources(root):
        nodes = nodes_of(file)
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        own = {node.attr for node in attributes if getattr(node.value, "id", "") in ("self", "cls")}
        own |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        own |= {node.target.id for node in nodes if is_field(node)}
        for node in attributes:
            is_private = re.match(r"_(?!_|replace$|asdict$|fields$)", node.attr)
            if is_private and node.attr not in own and ast.unparse(node.value) != "super()":
                room = module.split(".")[1]
                violations.setdefault(room, []).append(
                    f"{module}:{node.lineno} {ast.unparse(node)}"
                )
    violations.pop("reference", None)
    return violations


def is_field(node: ast.AST) -> bool:
    """Whether it is an annotated name."""
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


def reaches(root: Path) -> list[str]:
    """A room reads no more private names of other modules than REACHES says."""
    counts = {room: len(violations) for room, violations in private_reaches(root).items()}
    return [
        f"{room} reads {count} private names of other modules"
        for room, count in counts.items()
        if count > REACHES.get(room, 0)
    ]


def import_circles(root: Path) -> list[str]:
    """No modules import each other, be it in a function or for types."""
    files = {m: file for m, file in python_sources(root) if file.name != "__init__.py"}
    ahead = {module: imports(module, file) & files.keys() for module, file in files.items()}

    def comes_back(module: str) -> bool:
        seen, left = set(), [module]
        while left:
            new = ahead[left.pop()] - seen
            seen |= new
            left += new
        return module in seen

    return sorted(f"{module} is in a circle of imports" for module in ahead if comes_back(module))


def changed_classes(root: Path) -> list[str]:
    """No object changes its class: without the GIL that stops all threads of the interpreter."""
    return [
        f"{module}:{node.lineno} changes a class"
        for module, file in python_sources(root)
        for node in nodes_of(file)
        if isinstance(node, ast.Attribute)
        and node.attr == "__class__"
        and not isinstance(node.ctx, ast.Load)
    ]


def undocumented_api(module: types.ModuleType) -> list[str]:
    """`__all__` is exactly what the module defines in public, and all of it carries a docstring."""
    file = Path(str(module.__file__))
    listed = set(getattr(module, "__all__", ()))
    defined = set()
    for node in tree_of(file).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target)]
            defined |= {name.id for name in names if isinstance(name, ast.Name)}
    public = {name for name in defined if not name.startswith("_")}

    violations = [] if module.__doc__ else [f"{module.__name__} has no docstring"]
    violations += [f"{name} is public but not in __all__" for name in sorted(public - listed)]
    for name in sorted(listed):
        if not hasattr(module, name):
            violations.append(f"{name} is in __all__ but does not exist")
            continue
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        generated = (thing.__doc__ or "").startswith(f"{name}(")  # what @dataclass puts there
        if not thing.__doc__ or generated:
            violations.append(f"{name} has no docstring")
        # A twin's method has the contract of its kernel's method and need not repeat it.
        own = thing.__module__.startswith("hivecore") and ".reference" not in thing.__module__
        if inspect.isclass(thing) and own:
            members = (member for member in vars(thing) if not member.startswith("_"))
            for member in members:
                part = inspect.getattr_static(thing, member)
                described = inspect.isroutine(part) or inspect.isgetsetdescriptor(part)
                if (described or isinstance(part, property)) and not part.__doc__:
                    violations.append(f"{name}.{member} has no docstring")
    return violations


def public_modules() -> list[str]:
    walk = pkgutil.walk_packages(hivecore.__path__, "hivecore.")
    names = ["hivecore", *(module.name for module in walk)]
    return [name for name in names if not any(part.startswith("_") for part in name.split("."))]


def native_modules() -> list[str]:
    names = (f"hivecore.{module.name}" for module in pkgutil.iter_modules(hivecore.__path__))
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    specs = (importlib.util.find_spec(name) for name in names)
    return sorted(spec.name for spec in specs if spec and str(spec.origin).endswith(suffixes))


def versions(root: Path, version: str) -> list[str]:
    """pyproject.toml, package, CITATION.cff and the newest entry of the log name one version."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    log = (root / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## \[?v?(\d+\.\d+[^\s\]]*)", log, re.MULTILINE)
    violations = (
        [] if project == version else [f"pyproject.toml: {project}, __version__: {version}"]
    )
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    if cited is None or cited[1] != project:
        violations.append(f"pyproject.toml: {project}, CITATION.cff: {cited and cited[1]}")
    if newest is None or newest[1] != project:
        violations.append(f"pyproject.toml: {project}, CHANGELOG.md: {newest and newest[1]}")
    return violations


MADE_TABLE = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```|^(?: {4}.*\n)+", re.DOTALL | re.MULTILINE)
SPEED = re.compile(r"\b\d[\d,.]*(?: (?:ns|us|ms)\b|x\b| times as)")


def unfounded_figures(root: Path) -> list[str]:
    """Figures in README and docs are those of result files of full runs.

    Each file that a page names exists; a table of speeds is made from them (between marks), and
    what stands above it names one; so does a paragraph that tells of speed.
    """
    violations = []
    for file in sorted((root / "bench" / "results").glob("*.json")):
        if re.search(r'"smoke": true', file.read_text("utf-8")):
            violations.append(f"bench/results/{file.name} is of a smoke run")
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        name = page.relative_to(root)
        text = page.read_text("utf-8")
        named = re.findall(r"bench/results/[\w.-]*\w|(?<=`)\w+\.json(?=`)", text)
        paths = [path if "/" in path else f"bench/results/{path}" for path in named]
        violations += [
            f"{name}: {path} does not exist" for path in paths if not (root / path).exists()
        ]
        for table in MADE_TABLE.finditer(text):
            section = text[: table.start()].rpartition("\n## ")[2]
            if "bench/results" not in section:
                violations.append(f"{name}: no result file above the table {table[1]}")
        rest = CODE.sub("", MADE_TABLE.sub("", text))
        for paragraph in rest.split("\n\n"):
            if SPEED.search(paragraph) and "bench/results" not in paragraph:
                violations.append(f"{name}: no result file for {SPEED.search(paragraph)[0]}")
    return violations


def script(name: str) -> types.ModuleType:
    """A script that makes a part of the documentation."""
    file = ROOT / "docs" / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"docs_{name}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and typing look there
    spec.loader.exec_module(module)
    return module


def absent_files(root: Path) -> list[str]:
    """A file that the Makefile names, by a whole name or by a prefix and endings, exists."""

    def whole(parts: re.Match[str]) -> str:
        return " ".join(parts[1] + ending for ending in parts[2].split())

    text = (root / "Makefile").read_text("utf-8")
    text = re.sub(r"\$\(addprefix ([^,$]+),([^()]*)\)", whole, text)
    named = re.findall(r"(?<![\w./)-])(?:tests|bench|src|python|docs)/[\w./*-]+\.py\b", text)
    return [f"Makefile names {name}" for name in sorted(set(named)) if not any(root.glob(name))]


# --- this repository keeps the rules -----------------------------------------------------------

TREE_RULES = [
    python_in_kernels,
    sideways_includes,
    binding_reaches,
    missing_siblings,
    imports_of_foreign_bindings,
    imports_of_private_names,
    imports_against_the_arrows,
    looks_out_of_turn,
    large_classes,
    annotations_with_own_names,
    reaches,
    import_circles,
    changed_classes,
    names_of_single_stages,
    absent_files,
]


@in_source_tree
@pytest.mark.parametrize("rule", TREE_RULES, ids=lambda rule: rule.__name__)
def test_the_source_tree_keeps_the_rule(rule):
    assert rule(ROOT) == []


@in_source_tree
def test_figures_of_readme_and_docs_stand_in_result_files():
    assert unfounded_figures(ROOT) == []


@in_source_tree
def test_tables_of_readme_and_docs_are_what_the_results_say():
    stale = script("tables").stale(ROOT)
    assert [str(page) for page in stale] == [], "python docs/scripts/tables.py writes them"


@in_source_tree
def test_pictures_of_the_docs_are_what_the_library_answers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))
    drawn = script("pictures").drawn()
    drawn_before = {
        file.name: file.read_text("utf-8") for file in (ROOT / "docs/pictures").glob("*.svg")
    }
    assert drawn_before == drawn, "python docs/scripts/pictures.py writes them"


@in_source_tree
def test_cpp_of_the_docs_is_that_of_the_example_that_is_built():
    page = (ROOT / "docs" / "howto" / "cpp.md").read_text("utf-8")
    example = "".join(file.read_text("utf-8") for file in (ROOT / "examples" / "cpp").iterdir())
    blocks = re.findall(r"^```(?:cpp|cmake)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [line.partition("  //")[0].strip() for line in "".join(blocks).splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if line not in example] == []


@in_source_tree
def test_the_readme_is_short_and_so_is_its_example():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) < 120
    [block] = re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block.count(">>> ") + block.count("... ") <= 15


MADE = "<!-- table: a -->\n| x |\n| - |\n| 5 ns |\n<!-- end -->\n"


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("See `bench/results/b.md`, `a.json`.\n\n## How fast\n\nText.\n\n## End\n", ""),
        (f"## How fast\n\nFrom `bench/results/a.json`:\n\n{MADE}\nText.\n", ""),
        ("It takes 5 ns (`bench/results/a.json`).\n\n    sleep 5 ms\n\n```\n3x\n```\n", ""),
        ("See `bench/results/none.json`.\n", "bench/results/none.json does not exist"),
        ("From `none.json`.\n", "bench/results/none.json does not exist"),
        (f"`bench/results/`\n\n## How fast\n\nText.\n\n{MADE}", "no result file above the table a"),
        ("| x |\n| - |\n| 5 ns |\n", "no result file for 5 ns"),
        ("`a.json`\n\nIt is 1,200x as fast.\n", "no result file for 1,200x"),
    ],
)
@pytest.mark.parametrize("name", ["README.md", "docs/subjects/page.md"])
def test_a_figure_without_a_result_file_is_found(name, page, says, tmp_path):
    (tmp_path / "docs" / "subjects").mkdir(parents=True)
    (tmp_path / "README.md").touch()
    (tmp_path / name).write_text(page, "utf-8")
    (tmp_path / "bench" / "results").mkdir(parents=True)
    for file in ("a.json", "b.md"):
        (tmp_path / "bench" / "results" / file).touch()
    assert unfounded_figures(tmp_path) == [f"{name}: {says}"] * bool(says)


def test_the_result_file_of_a_smoke_run_is_found(tmp_path):
    (tmp_path / "README.md").touch()
    (tmp_path / "bench" / "results").mkdir(parents=True)
    (tmp_path / "bench" / "results" / "a.json").write_text('{"smoke": true}')
    assert unfounded_figures(tmp_path) == ["bench/results/a.json is of a smoke run"]


@in_source_tree
def test_the_rules_see_the_sources():
    assert "cells" in columns(ROOT)
    assert "_cells" in bindings(ROOT)
    assert "hivecore.errors" in dict(python_sources(ROOT))


@in_source_tree
def test_one_version_is_named_everywhere():
    assert versions(ROOT, hivecore.__version__) == []


@pytest.mark.parametrize("name", public_modules())
def test_public_names_are_listed_and_documented(name):
    assert undocumented_api(importlib.import_module(name)) == []


@pytest.mark.parametrize("name", native_modules())
def test_examples_of_native_docstrings_run(name):
    module = importlib.import_module(name)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(module, optionflags=flags)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_part_is_there_after_the_import_of_the_library_which_loads_none():
    parts = {name for name in public_modules() if name.count(".") == 1}
    parts -= {"hivecore.cli", "hivecore.errors"}
    code = (
        "import sys, hivecore\n"
        "loaded = [name for name in sys.modules if name.startswith(('hivecore.', 'numpy'))]\n"
        "assert loaded == ['hivecore.errors'], loaded\n"
        f"assert set(dir(hivecore)) >= { ({name.partition('.')[2] for name in parts})!r}\n"
        f"print(*({', '.join(sorted(parts))},), sep='\\n')"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = re.findall(r"^<module '([\w.]+)'", out.stdout, re.MULTILINE)
    assert modules == sorted(parts)
    with pytest.raises(AttributeError, match="module 'hivecore' has no attribute 'no_such_part'"):
        hivecore.no_such_part  # noqa: B018


def test_a_missing_library_is_named_with_the_extra_that_has_it(tmp_path, monkeypatch):
    from hivecore.sim import Workload, replay, report, sweep
    from hivecore.sim.tenants import tenants_report
    from hivecore.traces import generate

    result = replay(Workload.of(generate({"x": 8}, jobs=50, seed=0), {"x": 8}))
    shown = tenants_report(result)
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    for needs, library in (
        (lambda: sweep({"x": 8}, [1.0], jobs=50), "joblib"),
        (shown.table, "rich"),
        (lambda: shown.save_pictures(tmp_path), "matplotlib"),
    ):
        with pytest.raises(ModuleNotFoundError, match=rf"{library}: pip install 'hivecore\[sim\]'"):
            needs()


def test_the_library_needs_only_numpy_and_msgspec():
    # `sim` and the command have the extra; `interop` and `traces` load theirs where they use them.
    names = [name for name in public_modules() if not re.match(r"hivecore\.(sim|cli)(\.|$)", name)]
    code = (
        f"import sys, {', '.join(names)}\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(tops & {'rich', 'tqdm', 'matplotlib', 'joblib', 'networkx', 'scipy',"
        " 'yaml', 'aiohttp', 'prometheus_client', 'kubernetes_asyncio'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


# --- and each rule can fail --------------------------------------------------------------------

KEPT = {
    "Makefile": "test:\n\tpytest $(addprefix tests/,cells/test_a.py)\n\tpython bench/bench_*.py",
    "setup.py": 'MODULES: dict[str, list[str]] = {"cells": [], "matching": []}',
    "src/cpp/common/status.hpp": "#include <cstdint>",
    "src/cpp/cells/buddy.hpp": '#include <vector>\n#include "common/status.hpp"',
    "src/cpp/cells/buddy.cpp": '#include "cells/buddy.hpp"',
    "src/cpp/matching/matching.hpp": "",
    "src/hivecore/_cells.pyx": 'cimport numpy\ncdef extern from "cells/buddy.hpp":\n    pass',
    "src/hivecore/arguments.pxi": 'cdef extern from "common/status.hpp":\n    pass',
    "src/hivecore/cells/part.pxi": 'cdef extern from "cells/buddy.hpp":\n    pass',
    "src/hivecore/_matching.cpp": '#include <pybind11/numpy.h>\n#include "matching/matching.hpp"',
    "python/hivecore/__init__.py": "from . import cells, matching",
    "python/hivecore/_cells.pyi": "",
    "python/hivecore/_matching.pyi": "",
    "python/hivecore/cells.py": "from hivecore._cells import Buddy",
    "python/hivecore/matching/__init__.py": "from .._matching import solve",
    "python/hivecore/reference/cells.py": "",
    "python/hivecore/reference/matching/__init__.py": "",
    "python/hivecore/sim/__init__.py": "from hivecore.sim._loop import run",
    "python/hivecore/sim/_loop.py": "from hivecore import cells, __version__",
    "tests/cells/test_a.py": "",
    "tests/matching/test_twin.py": "",
    "bench/bench_cells.py": "",
    "bench/bench_matching.py": "",
}


def plant(root: Path, files: dict[str, str | None]) -> Path:
    """Write the made-up tree, with some files changed (or, with None, left out)."""
    for name, text in {**KEPT, **files}.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, "utf-8")
    return root


@pytest.mark.parametrize("rule", TREE_RULES, ids=lambda rule: rule.__name__)
def test_a_tree_in_order_passes(rule, tmp_path):
    assert rule(plant(tmp_path, {})) == []


CELLS_CPP = "src/cpp/cells/buddy.cpp"
STATUS = "src/cpp/common/status.hpp"
CELLS_PYX = "src/hivecore/_cells.pyx"
PART = "src/hivecore/cells/part.pxi"
TWIN = "python/hivecore/reference/cells.py"

LOCKED = """
class Cluster:
    def __init__(self):
        self._lock, self._numbers = RLock(), {}

    @property
    @in_turn
    def size(self):
        return len(self._numbers)

    def _help(self):
        return self._numbers

"""

ROUND = "python/hivecore/scheduler/round.py"
BROKEN = [
    (names_of_single_stages, ROUND, "state.stages.quotas.submit(job)", "round:1 names a single"),
    (names_of_single_stages, ROUND, "stage.part.check()", "round:1 names a single"),
    (names_of_single_stages, ROUND, "isinstance(one, CellStage)", "round:1 names a single"),
    (changed_classes, "python/hivecore/cells.py", "made.__class__ = int", "cells:1 changes"),
    (changed_classes, "python/hivecore/cells.py", "a, b.__class__ = 1, int", "cells:1 changes"),
    (python_in_kernels, CELLS_CPP, "#include <Python.h>", "Python.h"),
    (python_in_kernels, STATUS, '# include "numpy/arrayobject.h"', "numpy"),
    (python_in_kernels, "src/cpp/cells/x/deep.hpp", "#include <pybind11/stl.h>", "pybind11"),
    (sideways_includes, CELLS_CPP, '#include "matching/matching.hpp"', "matching"),
    (sideways_includes, CELLS_CPP, '#include "buddy.hpp"', "includes buddy.hpp"),
    (sideways_includes, CELLS_CPP, '#include "cells/../a.hpp"', "a.hpp"),
    (sideways_includes, STATUS, '#include "cells/buddy.hpp"', "cells/buddy"),
    (
        sideways_includes,
        "src/cpp/interleaving/a.cpp",
        '#include "matching/dense/dense.hpp"',
        "dense",
    ),
    (binding_reaches, "src/hivecore/_matching.cpp", '#include "cells/buddy.hpp"', "cells/buddy"),
    (binding_reaches, CELLS_PYX, "cdef extern from 'matching/m.hpp':", "includes matching/m.hpp"),
    (binding_reaches, PART, "cdef extern from 'matching/m.hpp':", "includes matching/m.hpp"),
    (binding_reaches, PART, "from hivecore._matching import f", "imports _matching"),
    (binding_reaches, CELLS_PYX, "from hivecore._m cimport Matrix", "cimports hivecore._m"),
    (binding_reaches, CELLS_PYX, "from hivecore._matching import f", "imports _matching"),
    (binding_reaches, CELLS_PYX, "from . import _matching", "imports _matching"),
    (missing_siblings, CELLS_PYX, None, "no binding"),
    (missing_siblings, "python/hivecore/_cells.pyi", None, "no stub"),
    (missing_siblings, "python/hivecore/matching/__init__.py", None, "no wrapper"),
    (missing_siblings, TWIN, None, "no twin"),
    (missing_siblings, "tests/matching/test_twin.py", None, "no tests"),
    (missing_siblings, "bench/bench_cells.py", None, "no benchmark"),
    (missing_siblings, "setup.py", 'MODULES: dict = {"cells": []}', "not in MODULES"),
    (missing_siblings, "setup.py", 'MODULES: dict = {"cells": ["matching"]}', "links cells with"),
    (missing_siblings, "setup.py", 'MODULES: dict = {"ropes": []}', "ropes, which has no kernel"),
    (imports_of_foreign_bindings, "python/hivecore/cells.py", "from . import _matching", "cells"),
    (imports_of_foreign_bindings, TWIN, "import hivecore._cells", "hivecore.reference.cells"),
    (imports_of_foreign_bindings, "python/hivecore/sim/a.py", "import hivecore._cells", "sim.a"),
    (
        imports_of_foreign_bindings,
        "python/hivecore/sim/_loop.py",
        "def run():\n    from .._cells import Buddy",
        "hivecore.sim._loop imports hivecore._cells",
    ),
    (
        imports_of_private_names,
        "python/hivecore/traces/swf.py",
        "from hivecore.sim._loop import run",
        "hivecore.traces.swf imports",
    ),
    (
        imports_of_private_names,
        "python/hivecore/interop/__init__.py",
        "from ..cells import _hidden",
        "hivecore.cells._hidden",
    ),
    (
        imports_against_the_arrows,
        "python/hivecore/sim/a.py",
        "from ..reference import cells",
        "sim.a imports hivecore.reference",
    ),
    (
        imports_against_the_arrows,
        "python/hivecore/cells.py",
        "def allocate():\n    import hivecore.reference.cells",
        "hivecore.cells imports hivecore.reference.cells",
    ),
    (
        imports_against_the_arrows,
        "python/hivecore/matching/a.py",
        "from hivecore import cells",
        "hivecore.matching.a imports hivecore.cells",
    ),
    (imports_against_the_arrows, "python/hivecore/weather.py", "", "weather is not in ARROWS"),
    *(
        (
            looks_out_of_turn,
            "python/hivecore/cells.py",
            f"{LOCKED}    def find(self, name):\n        {body}\n",
            "hivecore.cells.Cluster.find",
        )
        for body in (
            "return self._numbers[name]",
            "number = self._numbers[name]\n        with self._lock:\n            return number",
            "with self._lock:\n            n = 1\n        return self._numbers",
            "return self.size + self.size",
            "return self._help()",
            "return self._numbers.get(self.size)",
        )
    ),
    (
        large_classes,
        "python/hivecore/cells.py",
        "class Cluster:\n" + "    x = 1\n" * 500,
        "hivecore.cells.Cluster has 501 lines",
    ),
    (
        annotations_with_own_names,
        "python/hivecore/cells.py",
        "class Cell:\n    level: Annotated[int, within(1)] = 0\n    within: str = ''\n",
        "hivecore.cells.Cell.level reads within",
    ),
    (
        reaches,
        "python/hivecore/matching/a.py",
        "def audit(tree):\n    tree._core.check()\n",
        "matching reads 1 private names",
    ),
    (
        import_circles,
        "python/hivecore/cells.py",
        "def find():\n    from hivecore.sim._loop import run",
        "hivecore.sim._loop is in a circle of imports",
    ),
    (absent_files, "Makefile", "fuzz:\n\tpytest tests/cells/test_gone.py", "cells/test_gone.py"),
    (
        absent_files,
        "Makefile",
        "fuzz:\n\tpytest $(wildcard $(addprefix tests/cells/test_,a.py gone.py))",
        "tests/cells/test_gone.py",
    ),
]


@pytest.mark.parametrize(("rule", "file", "text", "says"), BROKEN)
def test_a_broken_rule_is_found(rule, file, text, says, tmp_path):
    assert any(says in line for line in rule(plant(tmp_path, {file: text})))


def test_a_method_that_looks_at_the_state_of_its_base_out_of_turn_is_found(tmp_path):
    part = "from hivecore.cells import Cluster\n\nclass Part(Cluster):\n    def find(self):\n"
    files = {"python/hivecore/cells.py": LOCKED, "python/hivecore/sim/part.py": part}
    for body, violations in (("self._numbers", ["hivecore.sim.part.Part.find"]), ("self.size", [])):
        files["python/hivecore/sim/part.py"] = f"{part}        return {body}\n"
        assert looks_out_of_turn(plant(tmp_path, files)) == violations


def test_a_method_that_has_its_turn_or_hands_the_object_on_passes(tmp_path):
    good = f"""{LOCKED}
    def find(self, name):
        name = str(name)
        with self._lock, open(name):
            return self._number(name), self.size

    def sizes(self):
        return [self.size]

    def copy(self):
        return type(self)._of(self._state())

    def _state(self):
        with self._lock:
            return dict(self._numbers)

    def _number(self, name):
        return self._numbers[name]

    @classmethod
    def of(cls, names):
        self = cls()
        self._numbers = names
        return self
"""
    assert looks_out_of_turn(plant(tmp_path, {"python/hivecore/cells.py": good})) == []


def test_the_one_allowed_face_of_another_column_passes(tmp_path):
    face = {"src/cpp/interleaving/a.cpp": '#include "matching/matching.hpp"'}
    assert sideways_includes(plant(tmp_path, face)) == []


GOOD_MODULE = '''"""A module."""
import math
__all__ = ["LIMIT", "Thing", "make"]
LIMIT = math.inf
_hidden = 1
class Thing:
    """A thing."""
    def use(self):
        """Use it."""
def make():
    """Make one."""
'''


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"""A module."""', "", "has no docstring"),
        ('"LIMIT", ', "", "LIMIT is public but not in __all__"),
        (', "make"', "", "make is public but not in __all__"),
        ('"make"', '"make", "sell"', "sell is in __all__ but does not exist"),
        ('"""A thing."""', "", "Thing has no docstring"),
        ('"""Make one."""', "pass", "make has no docstring"),
        ('"""Use it."""', "pass", "Thing.use has no docstring"),
        ("", "", ""),
    ],
)
def test_a_hidden_or_undocumented_name_is_found(old, new, says, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(GOOD_MODULE.replace(old, new, 1), "utf-8")
    spec = importlib.util.spec_from_file_location("hivecore_made_up", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert any(says in line for line in undocumented_api(module)) == bool(says)


@pytest.mark.parametrize(
    ("log", "version", "cited", "passes"),
    [
        (
            "# Changes\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n## 0.0.9\n",
            "0.1.0",
            "0.1.0",
            True,
        ),
        ("# Changes\n\n## 0.1.0\n", "0.1.1", "0.1.0", False),
        ("# Changes\n\n## 0.2.0\n\n## 0.1.0\n", "0.1.0", "0.1.0", False),
        ("# Changes\n", "0.1.0", "0.1.0", False),
        ("# Changes\n\n## 0.1.0\n", "0.1.0", "0.1.1", False),
        ("# Changes\n\n## 0.1.0\n", "0.1.0", None, False),
    ],
)
def test_a_version_that_differs_is_found(log, version, cited, passes, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n', "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(log, "utf-8")
    citation = "cff-version: 1.2.0\n" + (f"version: {cited}\n" if cited else "")
    (tmp_path / "CITATION.cff").write_text(citation, "utf-8")
    assert (versions(tmp_path, version) == []) == passes
