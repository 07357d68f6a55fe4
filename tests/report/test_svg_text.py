"""Figures without what a page does not need."""

from __future__ import annotations

from quantflow.report.svg_text import slim


def test_places_are_cut_short_and_texts_are_not() -> None:
    svg = '<svg x="1.23456"><path d="M 1.23456 7 \nL 0.999 12.5"/><text>  1.23456  </text></svg>'
    assert slim(svg) == (
        '<svg x="1.23"><path d="M 1.23 7 L 0.99 12.5"/><text>  1.23456  </text></svg>'
    )


def test_metadata_fonts_and_empty_groups_go() -> None:
    svg = (
        "<svg><metadata>\n<rdf/></metadata>\n <g id='a'>\n"
        '<g id="b"/>\n<text style="font-size: 9px; font-family: \'A\', b; fill: red" '
        'transform="rotate(-0 1 2)">t</text></g></svg>'
    )
    assert (
        slim(svg) == "<svg><g id='a'><text style=\"font-size: 9px; fill: red\">t</text></g></svg>"
    )


def test_a_rotation_stays() -> None:
    svg = '<svg><text transform="rotate(-40 1 2)">t</text></svg>'
    assert slim(svg) == svg
