"""Small mappings as sorted tuples of pairs: they are values, so records that hold them are, too."""

from collections.abc import Iterable, Mapping

from hivecore._arguments import as_dict, as_int, as_text
from hivecore._quantities import as_units

__all__ = ["MOST", "Amounts", "AmountsLike", "Labels", "LabelsLike", "as_amounts", "as_labels"]

Labels = tuple[tuple[str, str], ...]
Amounts = tuple[tuple[str, int], ...]
LabelsLike = Mapping[str, str] | Iterable[tuple[str, str]]
AmountsLike = Mapping[str, int | str] | tuple[tuple[str, int | str], ...]

#: The largest amount of one device: 256 of them, times 100, still are an int64.
MOST = 2**48


def as_labels(value: object, name: str) -> Labels:
    """The labels, sorted by their keys."""
    pairs = as_dict(value, name).items()
    return tuple(
        sorted((as_text(key, name), as_text(text, f"{name}[{key!r}]")) for key, text in pairs)
    )


def as_amounts(value: object, name: str, allowed: tuple[str, ...], low: int = 0) -> Amounts:
    """The amounts by their names, in the order of `allowed`; what is 0 is left out.

    Memory may be a quantity, such as "80Gi".
    """
    given = as_dict(value, name)
    for key in given:
        if as_text(key, name) not in allowed:
            raise ValueError(f"{name}: {key!r} is none of {', '.join(allowed)}")
    pairs = [
        (key, (as_units if key == "memory" else as_int)(given[key], f"{name}[{key!r}]", low, MOST))
        for key in allowed
        if key in given
    ]
    return tuple(pair for pair in pairs if pair[1])
