"""The native modules of hivecore and how they are compiled; everything else is in pyproject.toml.

Module `hivecore._X` is the binding `src/hivecore/_X.pyx` (Cython) or `src/hivecore/_X.cpp`
(pybind11), linked with the kernels `src/cpp/X/*.cpp` and `src/cpp/common/*.cpp`. A new module is a
new line of MODULES.
"""

import itertools
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import Cython
import numpy
import pybind11
from Cython.Build import cythonize
from Cython.Compiler.Errors import CompileError
from pybind11.setup_helpers import ParallelCompile
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Name of the module -> the other kernel columns whose code it calls.
MODULES: dict[str, list[str]] = {
    "caching": [],
    "cells": [],
    "common": [],  # what all others share
    "devices": [],
    "dra": [],
    "matching": [],
    "interleaving": ["matching"],
    "quotas": [],
    "replicas": [],
    "sim": ["storage"],
    "storage": [],
    "topology": [],
}

# Kernels whose explicit instantiations stand in several files.
SEPARATE = ["devices"]

# These take a third to two thirds of the time at -O3, for their loops over numbers; all others,
# and sparse matching, are as fast at -O2, and smaller.
UNROLLED = re.compile(r"/(matching/(?!sparse)|_?interleaving|topology|storage|sim/)")

SANITIZE = os.environ.get("HIVECORE_SANITIZE", "0") not in ("", "0")
STRICT = os.environ.get("HIVECORE_STRICT", "0") not in ("", "0")  # no warning in a kernel
BUILD = "build/sanitize" if SANITIZE else "build/release"  # the modes never share an object
# Cython translates once for both. It calls the declarations of its own NumPy.
TRANSLATED = f"build/cython-{Cython.__version__}-numpy-{numpy.__version__}"
EXPORTED = Path(BUILD, "exported")
OPTIONS = {
    "include_dirs": ["src/cpp", "src/hivecore", numpy.get_include(), pybind11.get_include()],
    "define_macros": [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
    "extra_compile_args": [
        "-std=c++20",
        "-pthread",
        "-fvisibility=hidden",
        "-ffp-contract=off",  # the same sums on every processor
        "-Wall",
        "-Wextra",
        "-MMD",
    ],
    "extra_link_args": ["-pthread"],
}
if sys.platform == "win32":
    OPTIONS["extra_compile_args"] = ["/std:c++20", "/O2", "/EHsc"]
    OPTIONS["extra_link_args"] = []
elif SANITIZE:
    # CPython's own flags let signed integers wrap around, which would hide that they do.
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-wrapv"]
    OPTIONS["extra_compile_args"] += ["-Og", "-g1", "-fno-omit-frame-pointer", "-UNDEBUG", *checks]
    OPTIONS["extra_link_args"] += checks
else:
    # A module is linked with all kernels of a column, and keeps what it calls.
    OPTIONS["extra_compile_args"] += ["-O2", "-g0", "-ffunction-sections", "-fdata-sections"]
    # On Linux it exports nothing else, so that templates of the standard library go, too.
    exported = f"-Wl,--version-script={EXPORTED}"
    slim = {"linux": ["-Wl,-s", "-Wl,--gc-sections", exported], "darwin": ["-Wl,-dead_strip"]}
    OPTIONS["extra_link_args"] += slim.get(sys.platform, [])


def stale(obj: str, source: str) -> bool:
    """Whether this file, or one that the compiler read for `obj` (its -MMD listing), is newer."""
    listing = Path(obj).with_suffix(".d")
    if not listing.exists():
        return True
    read = [source, __file__, *shlex.split(listing.read_text().replace("\\\n", " "))[1:]]
    built = os.path.getmtime(obj)
    return any(not os.path.exists(file) or os.path.getmtime(file) > built for file in read)


def extension(name: str, uses: list[str]) -> Extension:
    """The module `hivecore._<name>`: its binding, then the kernels that it is linked with."""
    binding = Path("src/hivecore", f"_{name}.pyx")
    module = Extension(f"hivecore._{name}", [], language="c++", depends=["setup.py"], **OPTIONS)
    module.sources.append(str(binding if binding.exists() else binding.with_suffix(".cpp")))
    for column in dict.fromkeys((name, *uses, "common")):
        module.sources += sorted(map(str, Path("src/cpp", column).rglob("*.cpp")))
        module.depends += sorted(map(str, Path("src/cpp", column).rglob("*.hpp")))
    return module


def translate(modules: list[Extension]) -> None:
    """Let Cython make a C++ file below build/ of each .pyx, and name that as the source instead."""
    bindings = [module for module in modules if module.sources[0].endswith(".pyx")]
    targets = [Path(TRANSLATED, module.sources[0]).with_suffix(".cpp") for module in bindings]
    changed = os.path.getmtime(__file__)
    try:
        cythonize(
            [Extension(one.name, one.sources[:1], language="c++") for one in bindings],
            build_dir=TRANSLATED,
            nthreads=int(os.environ.get("HIVECORE_JOBS", "0")) or os.cpu_count() or 1,
            force=any(it.exists() and os.path.getmtime(it) < changed for it in targets),
            quiet=True,  # errors are printed all the same
            compiler_directives={
                "language_level": 3,
                # A plain method descriptor is called 6 ns faster than Cython's own function type;
                # the signature stands in the docstring, as in CPython's own C code.
                "binding": False,
                "embedsignature": True,
                "embedsignature.format": "clinic",
                "auto_pickle": False,
                "autotestdict": False,
                "freethreading_compatible": True,
                "show_performance_hints": False,
            },
        )
    except CompileError:  # Cython has printed it; a traceback through this file would bury it
        sys.exit("a binding does not compile")
    for module, target in zip(bindings, targets, strict=True):
        module.sources[0] = str(target)


def longest_first(source: str) -> tuple[bool, int]:
    """Bindings take longest to compile, and files that include much longer than others."""
    included = re.findall('#include "(.+)"', Path(source).read_text("utf-8"))
    kernels = [file for file in (Path("src/cpp", name) for name in included) if file.exists()]
    return "src/cpp" in source, -sum(map(os.path.getsize, [source, *kernels]))


# The standard headers that most sources include are read once, before all sources. Each source
# still names what it needs: CMake compiles it without these.
STANDARD = """algorithm array atomic bit cmath compare cstddef cstdint cstdlib cstring deque
functional limits map memory mutex numeric optional queue set span stdexcept string string_view
tuple type_traits unordered_map unordered_set utility variant vector"""


class BuildExt(build_ext):
    """Compiles each stale source once for all modules and in parallel, then links what changed."""

    said = 0.0  # when progress was told last

    def finalize_options(self) -> None:
        super().finalize_options()
        if SANITIZE and self.inplace:
            sys.exit("HIVECORE_SANITIZE: never in place, see `make san`")
        # Here an editable install finds its objects too; it would start from an empty directory.
        python = sys.implementation.cache_tag + getattr(sys, "abiflags", "")
        self.build_temp = f"{BUILD}/objects.{self.plat_name}-{python}"

    def precompile(self) -> list[str]:
        """The options by which a source begins with the standard headers, which are compiled."""
        header = Path(self.build_temp, "standard.hpp")
        compiled = header.with_suffix(".hpp.gch")
        if not compiled.exists() or os.path.getmtime(compiled) < os.path.getmtime(__file__):
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text("".join(f"#include <{name}>\n" for name in STANDARD.split()))
            options = [*OPTIONS["extra_compile_args"], "-x", "c++-header"]
            self.spawn([*self.compiler.compiler_so_cxx, *options, str(header), "-o", str(compiled)])
        return ["-include", str(header)]

    def join(self) -> None:
        """Name, in place of all kernels of a folder, a file that includes them: it is compiled in
        three quarters of their time. Once a kernel has changed, they are compiled one by one.
        """
        folders: dict[Path, list[str]] = {}
        for source in {source for module in self.extensions for source in module.sources}:
            folder = Path(source).parent
            if folder.parts[1] == "cpp" and folder.parts[2] not in SEPARATE:
                folders.setdefault(folder, []).append(source)
        joined = {}
        for folder, kernels in folders.items():
            whole = Path(BUILD, "joined", *folder.parts[2:], "all.cpp")
            text = "".join(
                f'#include "{Path(kernel).relative_to("src/cpp").as_posix()}"\n'
                for kernel in sorted(kernels)
            )
            if not whole.exists() or whole.read_text() != text:
                whole.parent.mkdir(parents=True, exist_ok=True)
                whole.write_text(text)
            obj, *objects = self.compiler.object_filenames(
                [str(whole), *kernels], output_dir=self.build_temp
            )
            is_changed = os.path.exists(obj) and stale(obj, str(whole))
            if not is_changed and not any(map(os.path.exists, objects)):
                joined |= dict.fromkeys(kernels, str(whole))
        for module in self.extensions:
            sources = [joined.get(source, source) for source in module.sources]
            module.sources = list(dict.fromkeys(sources))

    def say(self, number: int, of: int) -> None:
        """Which file is compiled: a line that moves, off a terminal one every ten seconds."""
        now = time.monotonic()
        if sys.stderr.isatty():
            print(
                f"\rcompiling {number} of {of}", end="\n" if number == of else "", file=sys.stderr
            )
        elif number in (1, of) or now - self.said >= 10:
            self.said = now
            print(f"compiling {number} of {of}", file=sys.stderr, flush=True)

    def build_extensions(self) -> None:
        translate(self.extensions)
        EXPORTED.parent.mkdir(parents=True, exist_ok=True)
        EXPORTED.write_text("{ global: PyInit_*; local: *; };\n")
        if self.compiler.compiler_type == "unix":
            ParallelCompile("HIVECORE_JOBS", needs_recompile=stale).install()
            self.join()
            whole = self.compiler._compile
            sources = sorted(
                {source for module in self.extensions for source in module.sources},
                key=longest_first,
            )
            objects = self.compiler.object_filenames(sources, output_dir=self.build_temp)
            many = sum(map(stale, objects, sources))
            numbers = itertools.count(1)  # of threads, and of one interpreter

            def compile_one(obj: str, source: str, *rest: Any) -> None:
                self.say(next(numbers), many)
                suffix, arguments, options, defines = rest
                # Bindings are as fast as at -O2, and compile in 60 % of the time (at -Os calls take
                # up to 1.7 times as long); sanitized, in half of it unless optimized.
                level = ["-Wshadow"] if "cpp/" in source or "/joined/" in source else []
                level += ["-Werror"] if level and STRICT else []
                if UNROLLED.search(source) and not SANITIZE:
                    level += ["-O3"]  # GCC takes some of it from headers compiled before
                    arguments = [word for word in arguments if word not in begin]
                elif "src/hivecore" in source:
                    level += ["-O0" if SANITIZE else "-O1"]
                whole(obj, source, suffix, arguments, [*options, *level], defines)

            begin = self.precompile() if sys.platform == "linux" else []
            self.compiler._compile = compile_one
            self.compiler.compile(
                sources,
                output_dir=self.build_temp,
                macros=OPTIONS["define_macros"],
                include_dirs=OPTIONS["include_dirs"],
                extra_preargs=begin,
                extra_postargs=OPTIONS["extra_compile_args"],
            )
            for module in self.extensions:
                objects = self.compiler.object_filenames(module.sources, output_dir=self.build_temp)
                module.depends += objects
        super().build_extensions()


if __name__ == "__main__":  # Cython's processes may read this file, too
    setup(
        ext_modules=[extension(name, uses) for name, uses in MODULES.items()],
        cmdclass={"build_ext": BuildExt},
        options={"build": {"build_base": BUILD}},
    )
