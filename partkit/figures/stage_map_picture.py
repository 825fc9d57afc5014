"""Layers on ranks as a still picture, a table and a text; drawn for white paper.

rank 0  |embed|block 0|block 1|  4 ms      |====|  12 MB      |==|  3 MB       a row a rank, a panel for each cost,
rank 1  |block 2|head|  3 ms               |==|  8 MB         |=|  1 MB        a segment for each layer, a thick line where a stage begins
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from partkit.figures.bundle import figure, table
from partkit.figures.palette import PAGE, ink
from partkit.figures.stage_map import PANELS, Stage, amount, by_rank, headline, sums
from partkit.figures.stepper_still import RANK_COLORS
from partkit.figures.studio_look import mix

WIDTH, LEFT, HEAD, ROW, GAP, FOOT = 960, 76, 30, 40, 22, 8


def picture(found: Sequence[Stage]) -> str:
    """A row a rank, a panel for each cost, a segment for each layer.

    Example:
        >>> from partkit.figures.stage_map import stages
        >>> picture(stages([("a", 1.0, 10, 5), ("b", 2.0, 20, 5)], [1]))[:4]
        '<svg'
    """
    ranks, page = by_rank(found), PAGE["light"]
    height = HEAD + len(ranks) * ROW + FOOT
    wide = (WIDTH - LEFT - 2 * GAP - 10) / 3
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12" '
        f'fill="{page.edge}"><rect width="{WIDTH}" height="{height}" fill="{page.fill}"/>'
    ]
    parts += [f'<text x="8" y="{HEAD + rank * ROW + 18}" font-weight="600">rank {rank}</text>' for rank in range(len(ranks))]
    for panel, name in enumerate(PANELS):
        left, most = LEFT + panel * (wide + GAP), max(sums(own)[panel] for own in ranks)
        parts.append(f'<text x="{left:.0f}" y="18" font-weight="600">{name}</text>')
        for rank, own in enumerate(ranks):
            parts += _bar(own, panel, left, HEAD + rank * ROW, (wide - 58) / most if most else 0.0)
    return "".join([*parts, "</svg>"])


def _bar(own: Sequence[Stage], panel: int, left: float, top: float, scale: float) -> Iterator[str]:
    """The layers of one rank in one panel, one after the other; a thick line where another stage begins."""
    x = left
    for stage in own:
        hue = RANK_COLORS[stage.number % len(RANK_COLORS)][0]
        yield f'<path d="M{x:.1f} {top - 1}v30" stroke="{PAGE["light"].edge}" stroke-width="2"/>'
        for place, layer in enumerate(stage.layers):
            wide, fill = stage.amounts(layer)[panel] * scale, mix(hue, PAGE["light"].fill, (0.45, 0.75)[place % 2])
            yield f'<rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="28" fill="{fill}" stroke="{PAGE["light"].edge}" stroke-width=".6"/>'
            if wide > 6.6 * len(layer.name) + 4:
                yield f'<text x="{x + wide / 2:.1f}" y="{top + 18}" text-anchor="middle" font-size="11" fill="{ink(fill)}">{escape(layer.name)}</text>'
            x += wide
    yield f'<text x="{x + 5:.1f}" y="{top + 18}" font-size="11">{amount(sums(own)[panel], panel)}</text>'


# -- the bundle ------------------------------------------------------------------------------------------------------


def rows(found: Sequence[Stage]) -> list[tuple[str, ...]]:
    """The table: a row a stage.

    Example:
        >>> from partkit.figures.stage_map import stages
        >>> rows(stages([("a", 1.0, 10, 5), ("b", 2.0, 20, 5)], [1]))[1]
        ('1', '1', 'b', '2 s', '20 bytes', '1', '5 bytes')
    """
    return [
        (str(stage.number), str(stage.rank), _names(stage), amount(totals[0], 0), amount(totals[1], 1), str(stage.in_flight), amount(totals[2], 2))
        for stage in found
        for totals in [stage.totals]
    ]


def _names(stage: Stage) -> str:
    """All names of a few layers, the first and the last of many."""
    names = [layer.name for layer in stage.layers]
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} ... {names[-1]} ({len(names)})"


COLUMNS = ("stage", "rank", "layers", "time", "parameters", "in flight", "activations")


def plain_text(found: Sequence[Stage], plan: str = "") -> str:
    """The headline and the table in letters.

    Example:
        >>> from partkit.figures.stage_map import stages
        >>> print(plain_text(stages([("a", 1.0, 10, 5), ("b", 2.0, 20, 5)], [1])))
        2 layers in 2 stages on 2 ranks; rank 1 is the slowest: 2 s for a micro-batch, 1.33 times the mean
        stage  rank  layers  time  parameters  in flight  activations
            0     0       a   1 s    10 bytes          1      5 bytes
            1     1       b   2 s    20 bytes          1      5 bytes
    """
    lines = [COLUMNS, *rows(found)]
    wide = [max(len(line[k]) for line in lines) for k in range(len(COLUMNS))]
    return "\n".join(
        [headline(found), *([plan] if plan else []), *("  ".join(f"{cell:>{width}}" for cell, width in zip(line, wide, strict=True)) for line in lines)]
    )


def bundle(found: Sequence[Stage], title: str = "", plan: str = "") -> dict[str, str]:
    """The mimebundle of a cut.

    Args:
        found: its stages.
        title: shown above it.
        plan: what a schedule makes of it, in words.

    Example:
        >>> from partkit.figures.stage_map import stages
        >>> sorted(bundle(stages([("a", 1.0, 10, 5), ("b", 2.0, 20, 5)], [1])))
        ['text/html', 'text/plain']
    """
    line = "; ".join([headline(found), *([plan] if plan else [])])
    html = figure(picture(found), f"Layers on ranks. {line}", line, [table(COLUMNS, rows(found), "A row a stage")], title)
    return {"text/html": html, "text/plain": (f"{title}\n" if title else "") + plain_text(found, plan)}
