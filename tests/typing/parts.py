"""Type checkers know the parts of the library without an import of each; `make check` runs mypy."""

import hivecore


def parts() -> tuple[int, object]:
    allocator: hivecore.cells.BuddyAllocator = hivecore.cells.BuddyAllocator([2, 2], roots=1)
    levels: int = allocator.levels
    return levels, hivecore.no_such_part  # type: ignore[attr-defined]
