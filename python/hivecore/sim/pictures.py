"""What the pictures have in common: colours, titles, files.

Colours are those of Okabe and Ito, which people with colour-blindness tell apart.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "SKY",
    "VERMILION",
    "Floats",
    "literal",
    "rising",
    "save_figures",
    "set_title",
]

Floats = npt.NDArray[np.float64]

GREY, BLUE, VERMILION, GREEN = "#999999", "#0072B2", "#D55E00", "#009E73"
ORANGE, SKY, PURPLE, BLACK = "#E69F00", "#56B4E9", "#CC79A7", "#000000"


def set_title(axes: "Axes", text: str) -> None:
    """Write what a picture shows above it.

    :param axes: of the picture.
    :param text: one line or two.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> set_title(axes, "Quota delays nobody")
    >>> axes.get_title("left")
    'Quota delays nobody'
    """
    axes.set_title(text, loc="left", fontweight="bold", fontsize=11)


def literal(name: str) -> str:
    r"""Return a name as Matplotlib shows it: no part of it is mathematics, or hides it in legends.

    >>> print(literal("_a$b$"))
     _a\$b\$
    """
    return f"{' ' if name.startswith('_') else ''}{name}".replace("$", r"\$")


def rising(values: Floats, until: float) -> tuple[Floats, Floats]:
    """Return the steps of a line that tells how many values there are up to each, from none on.

    :param values: float64[values].
    :param until: where the line ends, if there are values.

    >>> [one.tolist() for one in rising(np.array([5.0, 2.0]), 9.0)]
    [[2.0, 2.0, 5.0, 9.0], [0.0, 1.0, 2.0, 2.0]]
    """
    if not len(values):
        return values, values
    ordered, count = np.sort(values), np.arange(len(values) + 1.0)
    return np.concatenate([ordered[:1], ordered, [until]]), np.append(count, count[-1])


def save_figures(figures: Mapping[str, "Figure"], folder: str | Path) -> list[Path]:
    """Write figures as PNG files and returns their paths.

    :param figures: by name without suffix.
    :param folder: made if it does not exist; files in it are overwritten.
    :raises OSError: a file cannot be written.

    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_figures({"delays": Figure()}, folder)]
    ['delays.png']
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in figures.items():
        path = target / f"{name}.png"
        figure.savefig(path, dpi=100)
        paths.append(path)
    return paths
