"""The pictures of the report: charts drawn by matplotlib, as SVG that follows the reader's light or dark page.

Owns:     colours, fonts, sizes. Text is text, its colour the page's; the same chart is the same octets in every run.
Not here: what is shown (charts.py).
"""

from __future__ import annotations

import io
import re

import matplotlib as mpl
from charts import Chart
from leads import is_ours
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Stand for the page's own colours, which the file's style sheet knows.
TEXT, GRID = "#010203", "#040506"
# Told apart on white and on black, and by who sees no red or no green.
COLOURS = ["#2f7fd0", "#e0822f", "#2a9d76", "#c060b0", "#b39320", "#d2506a", "#3aa6bd", "#8a6fd0", "#7d8794", "#6f9e2f"]
DASHES = ["-", "--", ":", "-."]
STYLE = (
    "<style>.aserve-chart{color:#1c1f24;--grid:#d5d9df}"
    "@media(prefers-color-scheme:dark){.aserve-chart{color:#e4e7ec;--grid:#3a404a}}</style>"
)
BACKGROUND = (
    "<style>.aserve-page{fill:#fff}@media(prefers-color-scheme:dark){.aserve-page{fill:#15181d}}</style>"
    '<rect class="aserve-page" width="100%" height="100%"/>'
)
WIDTH_INCHES = 8.6


def draw(chart: Chart) -> str:
    """Return a chart as an SVG element, without a background."""
    settings = {
        "svg.fonttype": "none", "svg.hashsalt": chart.slug, "font.family": "sans-serif", "font.size": 10,
        "text.color": TEXT, "axes.labelcolor": TEXT, "xtick.color": TEXT, "ytick.color": TEXT, "axes.edgecolor": GRID,
        "grid.color": GRID, "axes.titlesize": 11,
    }  # fmt: skip
    with mpl.rc_context(settings):
        figure = Figure(figsize=(WIDTH_INCHES, _height_inches(chart)), layout="constrained")
        if chart.kind == "panels":
            _panels(figure, chart)
        else:
            (_bars if chart.kind == "bars" else _lines)(figure.add_subplot(), chart)
        for axes in figure.axes:
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        octets = io.BytesIO()
        figure.savefig(
            octets,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _for_any_page(octets.getvalue().decode(), chart)


def standalone(svg: str) -> str:
    """Return a chart as a file that has a background of its own."""
    return svg.replace(STYLE, STYLE + BACKGROUND, 1) + "\n"


def _height_inches(chart: Chart) -> float:
    if chart.kind == "panels":
        return 1.4 * len(chart.panels) + 0.9
    if chart.kind == "lines":
        return 4.2 if len(chart.series) < 8 else 5.0
    return 1.3 + len(chart.labels) * max(0.34, 0.17 * len(chart.series) + 0.1)


def _bars(axes: Axes, chart: Chart) -> None:
    """Horizontal bars: names are long. The first label is on top."""
    height = 0.8 / len(chart.series)
    for number, (name, values) in enumerate(chart.series.items()):
        places = [place + (number - (len(chart.series) - 1) / 2) * height for place in range(len(chart.labels))]
        drawn = [(place, value) for place, value in zip(places, values) if value is not None]
        bars = axes.barh(
            [place for place, _ in drawn],
            [value for _, value in drawn],
            height * 0.92,
            label=name,
            color=COLOURS[number % len(COLOURS)],
        )
        axes.bar_label(bars, [_figure(value) for _, value in drawn], padding=3, fontsize=8, color=TEXT)
    axes.set_yticks(range(len(chart.labels)), chart.labels)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if is_ours(label.get_text()) else "normal")
    axes.invert_yaxis()
    axes.margins(x=0.1, y=0.02)
    axes.set_xlim(
        left=min([0.0, *(1.1 * value for values in chart.series.values() for value in values if value is not None)])
    )
    axes.set_xlabel(chart.unit)
    axes.xaxis.set_major_formatter(lambda value, _: _figure(value))
    axes.grid(axis="x", linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    if len(chart.series) > 1:
        axes.figure.legend(loc="outside upper center", ncols=min(len(chart.series), 5), frameon=False, labelcolor=TEXT)


def _panels(figure: Figure, chart: Chart) -> None:
    """Lines of one quantity each, one below another; the labels are below the last."""
    all_axes = figure.subplots(len(chart.panels), sharex=True)
    for axes, (unit, series) in zip(all_axes, chart.panels.items()):
        _plot(axes, chart._replace(unit=unit, series=series, axis=chart.axis if axes is all_axes[-1] else ""))
    handles, names = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 3), frameon=False, labelcolor=TEXT)


def _lines(axes: Axes, chart: Chart) -> None:
    """Lines over the labels, each at the same distance from the next; ours is the thick one."""
    _plot(axes, chart)
    axes.figure.legend(loc="outside right upper", frameon=False, labelcolor=TEXT)


def _plot(axes: Axes, chart: Chart) -> None:
    for number, (name, values) in enumerate(chart.series.items()):
        ours = is_ours(name)
        axes.plot(
            range(len(values)), [float("nan") if value is None else value for value in values], label=name,
            color=COLOURS[number % len(COLOURS)], linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
            linewidth=2.6 if ours else 1.4, marker="o", markersize=4 if ours else 2.5, zorder=3 if ours else 2,
        )  # fmt: skip
    step = max(1, len(chart.labels) // 12)
    axes.set_xticks(range(0, len(chart.labels), step), [f"{int(label):,}" for label in chart.labels[::step]])
    axes.set_xlabel(chart.axis)
    axes.set_ylabel(chart.unit)
    largest = max((value for values in chart.series.values() for value in values if value is not None), default=0)
    axes.set_ylim(0, largest * 1.06 or 1)
    axes.yaxis.set_major_formatter(lambda value, _: _figure(value))
    axes.grid(linewidth=0.6)


def _figure(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _for_any_page(text: str, chart: Chart) -> str:
    """Let an SVG of matplotlib's take the page's colours and width, and say what it is to those who cannot see it."""
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace(TEXT, "currentColor").replace(GRID, "var(--grid)")
    title = chart.title.replace("&", "&amp;").replace("<", "&lt;")
    svg = svg.replace("<svg ", '<svg class="aserve-chart" role="img" ', 1)
    head, separator, rest = svg.partition(">")
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)  # as wide as there is room: viewBox has the shape
    lines = (line.rstrip() for line in f"{head}{separator}<title>{title}</title>{STYLE}{rest}".splitlines())
    return "\n".join(line for line in lines if line)
