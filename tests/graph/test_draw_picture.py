"""Drawings as PNG and SVG, made here: by Graphviz where it is, else by matplotlib.

The tests of matplotlib always run, since the extra `dev` brings it. Graphviz itself may be missing; what it would be
told is seen by a stand-in for its program, which returns its input.
"""

from __future__ import annotations

import io
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.image
import pytest

from graphkit.constants import END, START
from graphkit.graph.draw import CurveStyle, DrawableGraph, DrawEdge, DrawNode, NodeStyles
from graphkit.graph.drawing import picture
from graphkit.graph.drawing.picture import Canvas, Paint, paint

NASTY = [
    '"q"',
    "<b>&amp;</b>",
    "$x_1$",
    "a\\nb",
    "\\N",
    "end",
    "a\nb",
    "<html>",
    "x\x07",
    "é 北京 😀",
    "{r|ec}",
    "n" * 99,
]
"""Names that mean something to HTML, TeX, Graphviz or Mermaid, or that no font can show."""

requires_dot = pytest.mark.skipif(
    shutil.which("dot") is None, reason="the program dot of Graphviz is not installed"
)


@pytest.fixture
def without_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.fixture(params=["matplotlib", pytest.param("graphviz", marks=requires_dot)])
def drawn_by(request: pytest.FixtureRequest) -> str:
    if request.param == "matplotlib":
        request.getfixturevalue("without_dot")
    return str(request.param)


def drawing(*ids: str, edges: tuple[DrawEdge, ...] = (), **marks: Any) -> DrawableGraph:
    return DrawableGraph(
        {node: DrawNode(node, node.rpartition(":")[2]) for node in ids}, list(edges), **marks
    )


GRAPH = drawing(
    START,
    "plan",
    "team:do",
    "team:inner:check",
    END,
    edges=(
        DrawEdge(START, "plan"),
        DrawEdge("plan", "team:do", "go on", True),
        DrawEdge("team:do", "team:inner:check"),
        DrawEdge("team:inner:check", "team:do", "again", True),
        DrawEdge("plan", "plan", "think", True),
        DrawEdge("team:inner:check", END),
    ),
)


def texts(svg: bytes) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [
        text
        for element in root.iter("{http://www.w3.org/2000/svg}text")
        if (text := "".join(element.itertext()))
    ]


def colours(png: bytes) -> set[str]:
    pixels = matplotlib.image.imread(io.BytesIO(png), format="png").reshape(-1, 4)
    return {
        "#" + "".join(f"{round(float(part) * 255):02x}" for part in pixel[:3])
        for pixel in set(map(tuple, pixels))
    }


def size(png: bytes) -> tuple[int, int]:
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


# Either way


@pytest.mark.usefixtures("drawn_by")
def test_a_png_is_returned_and_written(tmp_path: Path) -> None:
    data = GRAPH.draw_png()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    for path in (tmp_path / "a.png", str(tmp_path / "b.png")):
        assert GRAPH.draw_png(path) == data
        assert Path(path).read_bytes() == data


@pytest.mark.usefixtures("drawn_by")
def test_an_svg_holds_every_text_as_text(tmp_path: Path) -> None:
    data = GRAPH.draw_svg(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == data
    shown = [text.strip() for text in texts(data)]
    for text in (START, "plan", "do", "check", END, "team", "inner", "go on", "again", "think"):
        assert shown.count(text) == 1


@pytest.mark.usefixtures("drawn_by")
def test_names_are_shown_as_they_are() -> None:
    graph = drawing(*NASTY, edges=tuple(DrawEdge(name, NASTY[0], name) for name in NASTY))
    assert graph.draw_png()
    shown = " ".join(texts(graph.draw_svg()))
    for name in NASTY:
        text = " ".join(name.split()).replace("\x07", "?")
        assert "".join(shown.split()).count("".join(text.split())) >= 1 or name == "n" * 99
    assert shown.replace(" ", "").count("n" * 28) >= 3


@pytest.mark.usefixtures("drawn_by")
def test_positions_and_questions_are_coloured() -> None:
    marks = {"next": frozenset({"plan", "team", "team:do"}), "questions": {"team:do": ("Is 1 < 2?",)}}
    marked = replace(GRAPH, **marks)  # type: ignore[arg-type]
    assert {"#fff3bf", "#ffe3e3"} <= colours(marked.draw_png())
    assert not {"#fff3bf", "#ffe3e3"} & colours(GRAPH.draw_png())
    svg = marked.draw_svg()
    assert all(colour in svg for colour in (b"#fff3bf", b"#f08c00", b"#ffe3e3", b"#e03131"))
    shown = [text.strip() for text in texts(svg)]
    assert {"next", "? Is 1 < 2?", "team (next)"} <= set(shown)


@pytest.mark.usefixtures("drawn_by")
def test_labels_replace_names_and_edge_labels() -> None:
    svg = GRAPH.draw_svg(labels={"nodes": {"plan": "Think first"}, "edges": {"go on": "weiter"}})
    shown = [text.strip() for text in texts(svg)]
    assert {"Think first", "weiter", "do"} <= set(shown)
    assert not {"plan", "go on"} & set(shown)


@pytest.mark.usefixtures("drawn_by")
def test_equal_drawings_are_equal_pictures() -> None:
    assert GRAPH.draw_png() == replace(GRAPH).draw_png()
    assert GRAPH.draw_svg() == replace(GRAPH).draw_svg()


@pytest.mark.usefixtures("drawn_by")
def test_an_empty_graph_and_an_edge_to_nowhere() -> None:
    assert drawing().draw_png()
    assert drawing().draw_svg()
    with pytest.raises(ValueError, match="ghost"):
        drawing("a", edges=(DrawEdge("a", "ghost"),)).draw_png()


@pytest.mark.usefixtures("drawn_by")
def test_mermaid_options_draw_here_and_ask_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    data = GRAPH.draw_mermaid_png(
        curve_style=CurveStyle.BASIS,
        node_colors=NodeStyles(default="fill:#00ff00", last="fill:#00f"),
        wrap_label_n_words=1,
        output_file_path=str(tmp_path / "a.png"),
        draw_method="api",
        background_color="#ffff00",
        padding=5,
        max_retries=3,
        retry_delay=0.1,
        frontmatter_config={"config": {"theme": "neutral"}},
        base_url="https://localhost",
        proxies={},
    )
    assert (tmp_path / "a.png").read_bytes() == data
    assert {"#00ff00", "#0000ff", "#ffff00"} <= colours(data)
    assert "#ffffff" not in colours(data)


@pytest.mark.usefixtures("drawn_by")
@pytest.mark.parametrize("background", [None, "transparent"])
def test_the_background_may_be_left_out(background: str | None) -> None:
    data = GRAPH.draw_mermaid_png(background_color=background)
    pixels = matplotlib.image.imread(io.BytesIO(data), format="png")
    assert pixels[0, 0, 3] == 0


@pytest.mark.usefixtures("drawn_by")
def test_padding_makes_the_picture_larger() -> None:
    narrow, wide = (size(GRAPH.draw_mermaid_png(padding=padding)) for padding in (0, 72))
    assert wide[0] > narrow[0]
    assert wide[1] > narrow[1]


# matplotlib


@pytest.mark.usefixtures("without_dot")
def test_threads_may_draw_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        pictures = set(pool.map(lambda _: GRAPH.draw_svg(), range(8)))
    assert len(pictures) == 1


@pytest.mark.usefixtures("without_dot")
def test_a_picture_of_a_long_chain_stays_within_what_can_be_drawn() -> None:
    names = [f"n{number}" for number in range(1500)]
    edges = tuple(DrawEdge(one, other) for one, other in pairwise(names))
    assert max(size(drawing(*names, edges=edges).draw_png())) < 2**16


@pytest.mark.usefixtures("without_dot")
def test_another_font_may_be_asked_for() -> None:
    assert b"DejaVu Serif" in GRAPH.draw_svg(fontname="DejaVu Serif")


def test_a_picture_needs_no_display_and_leaves_the_settings_alone() -> None:
    program = (
        "import shutil, sys, warnings, matplotlib\n"
        "shutil.which = lambda name: None\n"
        "from graphkit.graph.draw import DrawableGraph, DrawNode\n"
        "before = matplotlib.rcParams['svg.fonttype'], list(warnings.filters)\n"
        "DrawableGraph({'a': DrawNode('a', 'a')}).draw_svg()\n"
        "assert before == (matplotlib.rcParams['svg.fonttype'], list(warnings.filters))\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "False"


# Graphviz


@pytest.fixture
def told_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `dot` that returns what it was told, and fails if it is told of "fail"."""
    if sys.platform == "win32":
        pytest.skip("the stand-in for dot is a script with a first line that Windows does not read")
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "text = open(sys.argv[-1], encoding='utf-8').read()\n"
        "sys.stdout.buffer.write(' '.join([sys.argv[1], text]).encode())\n"
        "sys.exit('fail' in text)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program) if name == "dot" else None)


@pytest.mark.usefixtures("told_dot")
def test_graphviz_draws_if_it_is_there() -> None:
    assert GRAPH.draw_png().startswith(b"-Tpng digraph")
    assert GRAPH.draw_svg().startswith(b"-Tsvg digraph")
    assert GRAPH.draw_mermaid_png().startswith(b"-Tpng digraph")


@pytest.mark.usefixtures("told_dot")
def test_graphviz_is_told_numbers_and_quoted_texts() -> None:
    names = ["graph", '"q"', "<b>&amp;</b>", "a\\nb", "a:b"]
    graph = DrawableGraph(
        {name: DrawNode(name, name) for name in names[:4]}, [DrawEdge("graph", '"q"', names[2])]
    )
    told = graph.draw_svg().decode()
    labels = re.findall(r'label="((?:[^"\\]|\\.)*)"', told)
    assert labels == ["graph", r"\"q\"", "<b>&amp;amp;</b>", r"a\\nb", " <b>&amp;amp;</b> "]
    assert re.findall(r"n\d+ -> n\d+", told) == ["n0 -> n1"]


@pytest.mark.usefixtures("told_dot")
def test_graphviz_failures_are_named() -> None:
    with pytest.raises(RuntimeError, match="could not draw the graph as png"):
        drawing("fail").draw_png()


# Nothing to draw with


def found(*names: str) -> Any:
    return lambda name: find_spec("json") if name in names else None


@pytest.mark.parametrize(
    ("packages", "programs", "missing"),
    [
        ((), (), "matplotlib and the package pydot and the program dot of Graphviz"),
        (("pydot",), (), "matplotlib and the program dot of Graphviz"),
        ((), ("dot",), "matplotlib and the package pydot"),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, packages: tuple[str, ...], programs: tuple[str, ...], missing: str
) -> None:
    monkeypatch.setattr(picture, "find_spec", found(*packages))
    monkeypatch.setattr(shutil, "which", lambda name: name if name in programs else None)
    with pytest.raises(ImportError) as caught:
        GRAPH.draw_png()
    assert f"missing are {missing}." in str(caught.value)
    assert 'pip install "graphkit-engine[draw]"' in str(caught.value)


# Colours


@pytest.mark.parametrize(
    ("css", "colours"),
    [
        ("fill:#abc", Paint("#aabbcc", "#9370db", 1.0)),
        ("fill:red;stroke: #112233 ; stroke-width:2.5px", Paint("red", "#112233", 2.5)),
        ("fill-opacity:0", Paint(None, "#9370db", 1.0)),
        ("fill:none,stroke:rgb(1,2,3),stroke-width:thick", Paint(None, "#9370db", 1.0)),
        ("", Paint("#123456", "#9370db", 1.0)),
    ],
)
def test_colours_are_read_from_css(css: str, colours: Paint) -> None:
    assert paint(NodeStyles(default="fill:#123456", next=css), "next") == colours


def test_a_canvas_has_usual_colours() -> None:
    assert paint(Canvas().styles, "default") == Paint("#f2f0ff", "#9370db", 1.0)
