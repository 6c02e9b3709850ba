"""Pictures of reports, by matplotlib, which is imported only when a picture is drawn: the import takes a second."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from importlib.util import find_spec
from itertools import pairwise
from math import log10
from typing import TYPE_CHECKING, Any, Final

from dra_spawner.placeholders.planner.demand.minutes import datetime_of
from dra_spawner.reports.inline_svg import inline_svg
from dra_spawner.reports.printable import printable
from dra_spawner.reports.timeline import Steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MISSING", "PolicyPoint", "can_plot", "frontier_svg", "timeline_svg"]

MISSING: Final = "matplotlib is not installed: pip install 'dra-spawner[report]'"
"""Message for administrators if `can_plot` is false."""

_COLORS: Final = {
    "#000001": "var(--plot-ink)",
    "#000002": "var(--plot-muted)",
    "#000003": "var(--plot-line)",
    "#000004": "var(--plot-demand)",
    "#000005": "var(--plot-missed)",
    "#000006": "var(--plot-warm)",
    "#000007": "var(--plot-target)",
    "#000008": "var(--plot-nodes)",
}
"""The page's colours, by the colours that matplotlib draws with."""
_INK, _MUTED, _LINE, _DEMAND, _MISSED, _WARM, _TARGET, _NODES = _COLORS

_SETTINGS: Final = {
    "svg.fonttype": "none",
    # The same identifiers at each run.
    "svg.hashsalt": "placeholders",
    # A dollar sign in a name is a dollar sign.
    "text.parse_math": False,
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titlecolor": _INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "legend.frameon": False,
    "legend.labelcolor": _INK,
    "lines.linewidth": 1.4,
}
_HIT_RATES: Final = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999)
#: Limit of the hit rate in the plot.
_BEST: Final = 0.99995
_LONGEST_NAME: Final = 40
#: matplotlib's settings are global in the process.
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class PolicyPoint:
    """Idle hours and hit rate of a policy."""

    name: str
    idle_hours_a_day: float
    hit_rate: float


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def frontier_svg(policies: Sequence[PolicyPoint], fixed: Sequence[PolicyPoint], *, prefix: str) -> str:
    """Hit rate against idle placeholder-hours: a point for each policy, and the curve of fixed numbers.

    Parameters
    ----------
    fixed
        Points of fixed numbers, in increasing order; the number is the name.
    prefix
        Makes identifiers unique in the page.
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(
            [each.idle_hours_a_day for each in fixed],
            [_nines(each.hit_rate) for each in fixed],
            color=_MUTED,
            marker="o",
            markersize=3.5,
            label="fixed number of placeholders",
        )
        for each in fixed:
            axes.annotate(
                each.name,
                (each.idle_hours_a_day, _nines(each.hit_rate)),
                xytext=(4, -10),
                textcoords="offset points",
                color=_MUTED,
                fontsize=8,
            )
        right = max((each.idle_hours_a_day for each in (*policies, *fixed)), default=0.0) or 1.0
        for each in policies:
            is_right = each.idle_hours_a_day > 0.6 * right
            # The label must not cover the curve and its numbers.
            below = any(
                low.idle_hours_a_day <= each.idle_hours_a_day <= high.idle_hours_a_day and each.hit_rate < high.hit_rate
                for low, high in pairwise(fixed)
            )
            axes.plot(
                [each.idle_hours_a_day], [_nines(each.hit_rate)], color=_TARGET, marker="D", markersize=6, linestyle=""
            )
            axes.annotate(
                f"{_shown(each.name)}  {each.hit_rate:.2%}",
                (each.idle_hours_a_day, _nines(each.hit_rate)),
                xytext=(-7 if is_right else 7, -16 if below and each.hit_rate else 6),
                ha="right" if is_right else "left",
                textcoords="offset points",
            )
        axes.set_xlim(-0.02 * right, 1.06 * right)
        rates = [each.hit_rate for each in (*policies, *fixed)]
        top = max(map(_nines, rates), default=1.0)
        axes.set_ylim(-0.06, top + 0.25)
        ticks = [each for each in _HIT_RATES if _nines(each) <= top + 0.25]
        axes.set_yticks([_nines(each) for each in ticks], [f"{100 * each:g} %" for each in ticks])
        axes.xaxis.set_major_formatter(_thousands())
        axes.set_title("launches that find a warm placeholder")
        axes.set_xlabel("idle placeholder-hours a day")
        axes.legend(loc="lower right")

    return _drawn(draw, (9.0, 4.4), "Hit rate against idle placeholder-hours", prefix)


def timeline_svg(
    found: Steps, zone: tzinfo, *, prefix: str, label: str = "Timeline", marks: Sequence[tuple[int, int]] = ()
) -> str:
    """Launches over time, and placeholders and nodes if they are known.

    Parameters
    ----------
    zone
        Time zone of the axis.
    prefix
        Makes identifiers unique in the page.
    marks
        Ranges of minutes with a coloured background.
    """

    def draw(figure: Figure) -> None:
        panels: list[Callable[[Axes], None]] = [launches]
        if found.target:
            panels.append(placeholders)
        if found.nodes:
            panels.append(nodes)
        all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for panel, axes in zip(panels, all_axes, strict=True):
            panel(axes)
            for begin, end in marks:
                axes.axvspan(moments([begin])[0], moments([end])[0], color=_MISSED, alpha=0.12, linewidth=0)
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(_thousands())
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        last = all_axes[-1]
        last.set_xlim(edges[0], edges[-1])
        locator = AutoDateLocator(tz=zone)
        last.xaxis.set_major_locator(locator)
        last.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))

    def launches(axes: Axes) -> None:
        axes.set_title("launches an hour")
        axes.stairs(found.launches, edges, fill=True, color=_DEMAND, alpha=0.55, label="all")
        if any(found.missed):
            axes.stairs(found.missed, edges, fill=True, color=_MISSED, label="had to wait")
            legend(axes)

    def placeholders(axes: Axes) -> None:
        axes.set_title("placeholders")
        axes.stairs(found.warm, edges, fill=True, color=_WARM, alpha=0.55, label="warm (mean)")
        axes.stairs(found.target, edges, color=_TARGET, label="target (highest)")
        legend(axes)

    def nodes(axes: Axes) -> None:
        axes.set_title("nodes")
        axes.stairs(found.nodes, edges, fill=True, color=_NODES, alpha=0.45)

    def legend(axes: Axes) -> None:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=2, borderaxespad=0.0)

    def moments(minutes: Sequence[int]) -> list[float]:
        return [float(each) for each in date2num([datetime_of(minute) for minute in minutes])]

    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.ticker import MaxNLocator

    edges = moments(found.edges)
    panels = 1 + bool(found.target) + bool(found.nodes)
    return _drawn(draw, (9.0, 0.7 + 1.55 * panels), label, prefix)


def _drawn(draw: Callable[[Figure], None], inches: tuple[float, float], label: str, prefix: str) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    known = {name: value for name, value in _SETTINGS.items() if name in mpl.rcParams}
    output = io.StringIO()
    with _LOCK, mpl.rc_context(known):
        figure = Figure(figsize=inches, layout="constrained", facecolor="none")
        draw(figure)
        for axes in figure.axes:
            axes.set_facecolor("none")
        FigureCanvasSVG(figure).print_svg(output, metadata={"Date": None, "Creator": None})
    return inline_svg(output.getvalue(), _COLORS, label=label, prefix=prefix)


def _nines(hit_rate: float) -> float:
    """Number of nines: 1 for 90 %, 2 for 99 %. Each further nine divides the misses by ten."""
    return -log10(1.0 - min(max(hit_rate, 0.0), _BEST))


def _thousands() -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda figure, place: f"{figure:,.0f}" if figure == round(figure) else f"{figure:,.3g}")


def _shown(name: str) -> str:
    """The name, cut to the length that fits into a picture."""
    return printable(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")
