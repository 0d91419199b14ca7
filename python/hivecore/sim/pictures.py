"""What the pictures have in common: colours, titles, files.

Colours are those of Okabe and Ito, which people with colour-blindness tell apart.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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
    "save_figures",
    "set_title",
]

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
