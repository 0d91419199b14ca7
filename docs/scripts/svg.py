"""Just enough SVG for the pictures of the documentation: boxes, words, lines and bars."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from textwrap import wrap

INK = "#263238"
PALE = "#eceff1"
LINE = "#90a4ae"
COLOURS = ("#1e88e5", "#fb8c00", "#43a047", "#8e24aa", "#e53935", "#00897b")


class Picture:
    """A drawing on white; lengths are pixels."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = (width, height)
        self.title = title
        self._parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, fill: str = PALE, edge: str = LINE
    ) -> None:
        """A rectangle with rounded corners."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
            f'fill="{fill}" stroke="{edge}"/>'
        )

    def text(
        self, x: float, y: float, words: str, *, size: int = 13, fill: str = INK, at: str = "middle"
    ) -> None:
        """One line of words; `at` is "start", "middle" or "end"."""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" '
            f'text-anchor="{at}">{escape(words)}</text>'
        )

    def line(
        self, points: Iterable[tuple[float, float]], colour: str = LINE, width: float = 1.0
    ) -> None:
        """Straight lines from point to point."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )

    def arrow(self, x: float, y: float, to_x: float, to_y: float, words: str = "") -> None:
        """A line with a head, and words above its middle."""
        self.line([(x, y), (to_x, to_y)], INK, 1.5)
        angle = math.atan2(to_y - y, to_x - x)
        for turn in (2.6, -2.6):
            tip = (to_x + 8 * math.cos(angle + turn), to_y + 8 * math.sin(angle + turn))
            self.line([(to_x, to_y), tip], INK, 1.5)
        if words:
            self.text((x + to_x) / 2, (y + to_y) / 2 - 6, words, size=12)

    def legend(self, x: float, y: float, names: Sequence[str], step: float = 22) -> None:
        """The names with their colours, below each other."""
        for i, name in enumerate(names):
            self.box(x, y + i * step, 14, 14, COLOURS[i], COLOURS[i])
            self.text(x + 22, y + i * step + 12, name, at="start")

    def bars(
        self,
        labels: Sequence[str],
        values: Sequence[float],
        texts: Sequence[str],
        *,
        top: float = 40,
        left: float = 190,
    ) -> None:
        """Horizontal bars below each other, each with its text behind it."""
        longest = max(values)
        for i, (label, value, text) in enumerate(zip(labels, values, texts, strict=True)):
            y = top + 34 * i
            length = (self.size[0] - left - 110) * value / longest
            self.text(left - 10, y + 16, label, at="end")
            self.box(left, y, max(length, 1), 24, COLOURS[0], COLOURS[0])
            self.text(left + length + 8, y + 16, text, at="start")

    def svg(self) -> str:
        """The whole file: the title, which is the claim, above the drawing."""
        width, height = self.size
        claim = wrap(self.title, int(width / 9))
        top = 22 * len(claim) + 12
        lines = [
            f'<text x="14" y="{22 * i + 26}" font-size="17" font-weight="bold" fill="{INK}">'
            f"{escape(line)}</text>"
            for i, line in enumerate(claim)
        ]
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + top}" '
                f'width="{width}" height="{height + top}" font-family="sans-serif">',
                f"<title>{escape(self.title)}</title>",
                f'<rect width="{width}" height="{height + top}" rx="6" fill="white"/>',
                *lines,
                f'<g transform="translate(0 {top})">',
                *self._parts,
                "</g>",
                "</svg>\n",
            ]
        )
