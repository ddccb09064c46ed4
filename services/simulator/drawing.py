"""Charts as SVG text: no library, no script, no network."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.simulator.trace import Floats

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 62, 14, 10, 24


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a chart."""

    name: str
    colour: str
    values: Floats
    fill: bool = False


def thinned(values: Floats, points: int = 600, *, highest: bool = True) -> Floats:
    """At most `points` values: the highest (or the mean) of each stretch, so that no spike is lost."""
    if len(values) <= points:
        return values
    edges = np.linspace(0, len(values), points, endpoint=False).astype(np.int64)
    if highest:
        return np.asarray(np.maximum.reduceat(values, edges), dtype=np.float64)
    counts = np.diff(np.append(edges, len(values)))
    return np.asarray(np.add.reduceat(values, edges) / counts, dtype=np.float64)


def time_chart(
    lines: Sequence[Line], *, days: float, height: int, unit: str, mark: float | None = None
) -> str:
    """Series over days, from zero up; `mark` is a level to compare with."""
    top = max([float(line.values.max(initial=0.0)) for line in lines] + [mark or 0.0, 1e-9]) * 1.05
    parts = [_frame(height), *_levels(top, height, unit)]
    for line in lines:
        xs = np.linspace(LEFT, WIDTH - RIGHT, len(line.values))
        ys = _y(line.values, top, height)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        if line.fill:
            base = height - BOTTOM
            path = f"{LEFT},{base} {path} {WIDTH - RIGHT},{base}"
            parts.append(f'<polygon points="{path}" fill="{line.colour}" fill-opacity=".35"/>')
        else:
            parts.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="1.2"/>')
    if mark is not None:
        y = float(_y(np.array([mark]), top, height)[0])
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="mark"/>')
    parts += _days(days, height)
    return _svg(height, parts)


def scatter(groups: Sequence[tuple[str, str, Sequence[tuple[float, float, str]]]]) -> str:
    """GPU-hours over floor (x) against late share (y, logarithmic); each group is (name, colour, points)."""
    height = 420
    every = [(x, max(y, 1e-5)) for _, _, points in groups for x, y, _ in points]
    x_low, x_high = 0.9, max([x for x, _ in every] + [1.5]) * 1.03
    y_low, y_high = 1e-5, 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low)
        up = math.log(max(y, y_low) / y_low) / math.log(y_high / y_low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), height - BOTTOM - up * (height - TOP - BOTTOM)

    parts = [_frame(height)]
    for exponent in range(-5, 1):
        _, y = place(x_low, 10.0**exponent)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * 10.0**exponent:g} %</text>'
        )
    for step in range(6):
        value = x_low + (x_high - x_low) * step / 5
        x, _ = place(value, y_low)
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{value:.2f}x</text>')
    for name, colour, points in groups:
        placed = sorted((*place(x, y), label) for x, y, label in points)
        if len(placed) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in placed)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-opacity=".4"/>')
        for x, y, label in placed:
            title = html.escape(label)
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{title}</title></circle>'
            )
        x, y, _ = placed[0]
        parts.append(f'<text x="{x + 6:.1f}" y="{y - 5:.1f}" fill="{colour}">{html.escape(name)}</text>')
    return _svg(height, parts)


def _y(values: Floats, top: float, height: int) -> Floats:
    return np.asarray(height - BOTTOM - values / top * (height - TOP - BOTTOM))


def _frame(height: int) -> str:
    inner = f'width="{WIDTH - LEFT - RIGHT}" height="{height - TOP - BOTTOM}"'
    return f'<rect x="{LEFT}" y="{TOP}" {inner} class="frame"/>'


def _levels(top: float, height: int, unit: str) -> list[str]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = float(_y(np.array([top * share]), top, height)[0])
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(top * share)}{unit}</text>'
        )
    return parts


def _days(days: float, height: int) -> list[str]:
    step = max(1, math.ceil(days / 10))
    parts = []
    for day in range(0, math.floor(days) + 1, step):
        x = LEFT + day / days * (WIDTH - LEFT - RIGHT)
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">day {day}</text>')
    return parts


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
