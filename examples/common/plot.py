"""Figures of the demonstrations, drawn by matplotlib (Debian: python3-matplotlib)."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import matplotlib

matplotlib.use("Agg")  # a file, no window
from matplotlib import pyplot  # noqa: E402

# Okabe and Ito's colours, which the colour-blind tell apart, too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARK = "#555555"

STYLE = {
    "font.size": 13,
    "axes.titlesize": 14,
    "figure.titlesize": 18,
    "legend.fontsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "lines.linewidth": 2.5,
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
}


class Figure:
    """Panels side by side under one title; `panels` are matplotlib's Axes. Saved by save()."""

    def __init__(self, title: str, widths: Sequence[float]) -> None:
        matplotlib.rcParams.update(STYLE)
        self._figure: Any = pyplot.figure(figsize=(15, 6.5), layout="constrained")
        self.panels: list[Any] = list(self._figure.subplots(1, len(widths), width_ratios=widths))
        self._figure.suptitle(title)

    def save(self, path: str) -> None:
        self._figure.savefig(path, dpi=150)
        pyplot.close(self._figure)


def label(axes: Any, title: str, x: str, y: str) -> None:
    """Title of a panel, and its axes with their units."""
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def mark(axes: Any, at: float, text: str, height: float = 0.97, left: bool = False) -> None:
    """A vertical line where something happened, and what; @height is a share of the panel's."""
    axes.axvline(at, color=MARK, linestyle="--", linewidth=1.5)
    axes.annotate(
        text,
        (at, height),
        xycoords=("data", "axes fraction"),
        xytext=(-6 if left else 6, 0),
        textcoords="offset points",
        va="top",
        ha="right" if left else "left",
        color=MARK,
        bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.8},
    )


def legend(axes: Any) -> None:
    axes.legend(loc="upper left", framealpha=0.9, edgecolor="none")


def bars(axes: Any, values: Mapping[str, float], form: str = "{:.1f}") -> None:
    """One bar a name, with its value on it."""
    drawn = axes.bar(list(values), list(values.values()), color=COLOURS[: len(values)], width=0.6)
    axes.bar_label(drawn, labels=[form.format(v) for v in values.values()], padding=3)
    axes.margins(y=0.12)
    axes.grid(axis="x", visible=False)
