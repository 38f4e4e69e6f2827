"""Drawings as text and data: Mermaid that Mermaid reads as it was meant, JSON, networkx.

Mermaid itself is not at hand here. The escaping was checked once against its own parser (11.17: ids, labels,
ends and boxes of 140 drawings came back as they were, and so did classes and frontmatter); these tests hold on to
the rules found then.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, NamedTuple

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphkit.constants import END, START
from graphkit.graph.draw import CurveStyle, DrawableGraph, DrawEdge, DrawNode, NodeStyles


def drawing(*edges: tuple[str, str], nodes: str = "", **options: Any) -> DrawableGraph:
    """A graph with the ends of the edges, and more nodes, one per letter."""
    names = dict.fromkeys([*(end for edge in edges for end in edge), *nodes])
    return DrawableGraph(
        {name: DrawNode(name, name) for name in names}, [DrawEdge(*edge) for edge in edges], **options
    )


def unescaped(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)


def parsed(text: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Labels by identifier, and edges as (source, target, label), of a drawing without boxes and styles."""
    nodes: dict[str, str] = {}
    edges: list[tuple[str, str, str]] = []
    for line in text.splitlines()[1:]:
        if node := re.fullmatch(r'\t(\w+)\(?\["([^"]*)"\]\)?', line, re.ASCII):
            nodes[node[1]] = unescaped(node[2])
        else:
            edge = re.fullmatch(r"\t(\w+) (?:-->|-\.->|-- (.*) -->|-\. (.*) \.->) (\w+);", line, re.ASCII)
            assert edge is not None, line
            edges.append((edge[1], edge[4], unescaped(edge[2] or edge[3] or "")))
    return nodes, edges


def plain(graph: DrawableGraph) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """What a drawing without styles says, with labels in one line."""
    return parsed(graph.draw_mermaid(with_styles=False, wrap_label_n_words=1000))


WHOLE = DrawableGraph(
    nodes={
        START: DrawNode(START, START),
        "plan": DrawNode("plan", "plan"),
        "ask me": DrawNode("ask me", "ask me", metadata={"owner": "ops", "cost": 2}),
        END: DrawNode(END, END),
    },
    edges=[
        DrawEdge(START, "plan"),
        DrawEdge("plan", "ask me", conditional=True, label="unsure"),
        DrawEdge("plan", END, conditional=True),
        DrawEdge("ask me", "plan", label="asked"),
    ],
    interrupt_before=frozenset({"ask me"}),
    interrupt_after=frozenset({"plan", "ask me"}),
)


def test_a_whole_drawing() -> None:
    assert WHOLE.draw_mermaid() == (
        "---\n"
        'config: {"flowchart": {"curve": "linear"}}\n'
        "---\n"
        "graph TD;\n"
        '\t__start__(["start"])\n'
        '\tplan["plan<br/><small>interrupt after</small>"]\n'
        '\task_20_me["ask me<br/><small>owner = ops<br/>cost = 2<br/>'
        'interrupt before<br/>interrupt after</small>"]\n'
        '\t__end__(["end"])\n'
        "\t__start__ --> plan;\n"
        "\tplan -. unsure .-> ask_20_me;\n"
        "\tplan -.-> __end__;\n"
        "\task_20_me -- asked --> plan;\n"
        "\tclassDef default fill:#f2f0ff,line-height:1.2\n"
        "\tclassDef first fill-opacity:0\n"
        "\tclass __start__ first\n"
        "\tclassDef last fill:#bfb6fc\n"
        "\tclass __end__ last\n"
    )


def test_without_styles_there_are_only_nodes_and_edges() -> None:
    text = WHOLE.draw_mermaid(with_styles=False)
    assert text.startswith("graph TD;\n")
    assert "class" not in text
    assert parsed(text)[1] == [
        (START, "plan", ""),
        ("plan", "ask_20_me", "unsure"),
        ("plan", END, ""),
        ("ask_20_me", "plan", "asked"),
    ]


class ForeignStyles(NamedTuple):
    """As another library has them: an object with these attributes."""

    default: str = "fill:#ffffff"
    first: str = "fill:#eeeeee"
    last: str = "fill:#dddddd"


@pytest.mark.parametrize(
    "colours", [NodeStyles("fill:#ffffff", "fill:#eeeeee", "fill:#dddddd"), ForeignStyles()]
)
def test_node_colors(colours: Any) -> None:
    text = WHOLE.draw_mermaid(node_colors=colours)
    assert re.findall(r"classDef (.*)", text) == [
        "default fill:#ffffff",
        "first fill:#eeeeee",
        "last fill:#dddddd",
    ]


class ForeignCurve(Enum):
    STEP_AFTER = "stepAfter"


def frontmatter(text: str) -> dict[str, Any]:
    """Its lines are `key: JSON`, which is YAML too."""
    _, lines, _ = text.split("---\n", 2)
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines.splitlines())}


@pytest.mark.parametrize("curve", [CurveStyle.STEP_AFTER, ForeignCurve.STEP_AFTER, "stepAfter"])
def test_the_curve_and_the_configuration_stand_at_the_top(curve: Any) -> None:
    given = {"title": 'a "title": é', "config": {"theme": "neutral", "flowchart": {"htmlLabels": True}}}
    text = WHOLE.draw_mermaid(curve_style=curve, frontmatter_config=given)
    assert text.isascii()
    assert frontmatter(text) == {
        "title": 'a "title": é',
        "config": {"theme": "neutral", "flowchart": {"htmlLabels": True, "curve": "stepAfter"}},
    }
    assert given["config"] == {"theme": "neutral", "flowchart": {"htmlLabels": True}}


def test_an_unknown_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="wavy"):
        WHOLE.draw_mermaid(curve_style="wavy")


def test_edge_labels_are_broken_after_some_words() -> None:
    graph = DrawableGraph({"a": DrawNode("a", "a")}, [DrawEdge("a", "a", "one two three four five")])
    assert "-- one two<br/>three four<br/>five -->" in graph.draw_mermaid(wrap_label_n_words=2)
    assert "-- one two three four five -->" in graph.draw_mermaid()
    with pytest.raises(ValueError, match="wrap_label_n_words"):
        graph.draw_mermaid(wrap_label_n_words=0)


def test_long_notes_are_shortened_and_lists_are_plain() -> None:
    node = DrawNode("a", "a", metadata={"tags": ["x", "y"], "why": "because " * 20, "data": "x" * 100})
    notes = DrawableGraph({"a": node}).notes("a")
    assert notes[0] == "tags = x, y"
    assert notes[1] == "why = because because because because because because..."
    assert notes[2] == f"data = {'x' * 50}..."


@pytest.mark.parametrize("direction", ["TD", "TB", "BT", "LR", "RL"])
def test_the_direction(direction: Any) -> None:
    text = drawing(nodes="a").draw_mermaid(direction=direction, with_styles=False)
    assert text.startswith(f"graph {direction};\n")


def test_an_unknown_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="UP"):
        drawing(nodes="a").draw_mermaid(direction="UP")  # type: ignore[arg-type]


def test_an_empty_graph() -> None:
    assert DrawableGraph({}).draw_mermaid(with_styles=False) == "graph TD;\n"
    assert "classDef first" in DrawableGraph({}).draw_mermaid()


def test_equal_graphs_give_equal_text_in_the_order_given() -> None:
    graph = drawing((START, "b"), ("b", "a"), ("a", END), interrupt_before=frozenset("ab"))
    again = drawing((START, "b"), ("b", "a"), ("a", END), interrupt_before=frozenset("ba"))
    assert graph.draw_mermaid() == graph.draw_mermaid() == again.draw_mermaid()
    assert list(plain(graph)[0]) == [START, "b", "a", END]


# Escaping


@pytest.mark.parametrize("word", ["end", "graph", "subgraph", "style", "class", "click", "default", "_self"])
def test_words_of_mermaid_are_no_identifiers(word: str) -> None:
    nodes, edges = plain(drawing((word, "a")))
    assert nodes == {f"{word}_": word, "a": "a"}
    assert edges == [(f"{word}_", "a", "")]


def test_identifiers_stay_different() -> None:
    names = ("a b", "a_20_b", "end", "end_")
    nodes, _ = plain(DrawableGraph({name: DrawNode(name, name) for name in names}))
    assert list(nodes.values()) == ["a b", "a_20_b", "end", "end_"]


@pytest.mark.parametrize(
    "text", ['"', "<b>", "a|b", "#35;", "`x`", "[x]", "(x)", "{x}", "a;b", "%%", "a\\n", "-->", "😀"]
)
def test_signs_of_mermaid_are_escaped(text: str) -> None:
    graph = DrawableGraph(
        {"a": DrawNode("a", text, metadata={text: text})}, [DrawEdge("a", "a", conditional=True, label=text)]
    )
    nodes, edges = plain(graph)
    assert nodes == {"a": f"{text}<br/><small>{text} = {text}</small>"}
    assert edges == [("a", "a", text)]


@pytest.mark.parametrize("text", ["__x__", "*x*", "1. x", "# x", "- x", "~x~", "http://x.y"])
def test_signs_of_markdown_are_escaped(text: str) -> None:
    graph = DrawableGraph({"a": DrawNode("a", text)})
    [label] = re.findall(r'"(.*)"', graph.draw_mermaid(with_styles=False))
    assert unescaped(label) == text
    assert not re.search(r"\b_|_\b|[*.#~/](?!\d+;)|^- ", label)


def test_words_stay_readable() -> None:
    assert '["my_node-2, or so"]' in DrawableGraph({"a": DrawNode("a", "my_node-2, or so")}).draw_mermaid()


@pytest.mark.parametrize(("text", "shown"), [("a\nb", "a b"), ("  a\t", "a"), ("", "\xa0"), (" \n", "\xa0")])
def test_white_space_is_one_space(text: str, shown: str) -> None:
    graph = DrawableGraph({"a": DrawNode("a", text)}, [DrawEdge("a", "a", label=text)])
    nodes, edges = plain(graph)
    assert nodes == {"a": shown}
    assert edges == [("a", "a", shown.strip("\xa0"))]


names = st.lists(
    st.text(st.characters(exclude_characters=":", exclude_categories=["Cs"]), min_size=1), unique=True
)


@settings(deadline=None)
@given(names)
def test_any_names_can_be_drawn(names: list[str]) -> None:
    edges = [DrawEdge(one, other, conditional=True, label=other) for one in names for other in names[:2]]
    graph = DrawableGraph({name: DrawNode(name, name) for name in names}, edges)
    nodes, drawn = plain(graph)
    shown = [" ".join(name.split()) for name in names]
    assert [label.strip("\xa0") for label in nodes.values()] == [
        text.strip("_") if name in (START, END) else text.strip("\xa0")
        for name, text in zip(names, shown, strict=True)
    ]
    by_name = dict(zip(names, nodes, strict=True))
    assert [edge[:2] for edge in drawn] == [(by_name[edge.source], by_name[edge.target]) for edge in edges]


# Nested graphs


def test_ids_with_colons_are_drawn_in_boxes() -> None:
    ids = [START, "team", "team:research:search", "team:write", "team:research:end", END]
    graph = DrawableGraph(
        {node: DrawNode(node, node.rpartition(":")[2]) for node in ids},
        [DrawEdge(START, "team:research:search"), DrawEdge("team:write", END)],
    )
    assert graph.draw_mermaid(with_styles=False) == (
        "graph TD;\n"
        '\t__start__(["start"])\n'
        '\tteam["team"]\n'
        '\t__end__(["end"])\n'
        '\tsubgraph team_3a_["team"]\n'
        '\t\tteam_3a_write["write"]\n'
        '\t\tsubgraph team_3a_research_3a_["research"]\n'
        '\t\t\tteam_3a_research_3a_search["search"]\n'
        '\t\t\tteam_3a_research_3a_end["end"]\n'
        "\t\tend\n"
        "\tend\n"
        "\t__start__ --> team_3a_research_3a_search;\n"
        "\tteam_3a_write --> __end__;\n"
    )


# Looking


def test_the_first_and_the_last_node() -> None:
    graph = drawing((START, "a"), ("a", "b"), ("b", "a"), ("b", END))
    first, last = graph.first_node(), graph.last_node()
    assert first is not None
    assert last is not None
    assert (first.id, last.id) == (START, END)


def test_there_may_be_no_first_or_last_node_or_several() -> None:
    loop = drawing(("a", "b"), ("b", "a"))
    assert (loop.first_node(), loop.last_node()) == (None, None)
    several = drawing(("a", "c"), ("b", "c"), ("c", "d"), ("c", "e"))
    assert (several.first_node(), several.last_node()) == (None, None)


def test_nodes_and_edges_are_tuples_in_the_usual_order() -> None:
    source, target, data, conditional = DrawEdge("a", "b", "label", True)
    assert (source, target, data, conditional) == ("a", "b", "label", True)
    assert DrawEdge("a", "b", "label").data == "label"
    node_id, name, what, metadata = DrawNode("x:a", "a", print, {"k": 1})
    assert (node_id, name, what, metadata) == ("x:a", "a", print, {"k": 1})


# Faults, and data


def test_an_edge_to_nowhere_is_refused_by_name() -> None:
    graph = DrawableGraph({"a": DrawNode("a", "a")}, [DrawEdge("a", "ghost")])
    for draw in (graph.draw_mermaid, graph.draw_ascii, graph.to_json, graph.to_networkx):
        with pytest.raises(ValueError, match="ghost"):
            draw()


def test_to_networkx() -> None:
    graph = DrawableGraph(
        {START: DrawNode(START, START), "x:a": DrawNode("x:a", "a", metadata={"k": 1})},
        [DrawEdge(START, "x:a"), DrawEdge(START, "x:a", conditional=True, label="maybe")],
        interrupt_before=frozenset({"x:a"}),
        next=frozenset({"x:a"}),
        questions={"x:a": ("Sure?",)},
    )
    result = graph.to_networkx()
    assert type(result) is networkx.MultiDiGraph
    assert dict(result.nodes[START]) == {
        "name": START,
        "metadata": None,
        "interrupt_before": False,
        "interrupt_after": False,
        "next": False,
        "questions": (),
    }
    assert dict(result.nodes["x:a"]) == {
        "name": "a",
        "metadata": {"k": 1},
        "interrupt_before": True,
        "interrupt_after": False,
        "next": True,
        "questions": ("Sure?",),
    }
    assert list(result.edges(data=True)) == [
        (START, "x:a", {"conditional": False, "label": None}),
        (START, "x:a", {"conditional": True, "label": "maybe"}),
    ]


def test_to_json_has_the_usual_shape() -> None:
    graph = DrawableGraph(
        {
            START: DrawNode(START, START),
            "a": DrawNode("a", "a", json.loads, {"when": 1.5, "who": ("x", {1: print})}),
            END: DrawNode(END, END),
        },
        [DrawEdge(START, "a"), DrawEdge("a", END, "done", True)],
        interrupt_before=frozenset({"a"}),
        interrupt_after=frozenset({"a"}),
        next=frozenset({"a"}),
        questions={"a": ("Sure?",)},
    )
    form = graph.to_json()
    assert json.loads(json.dumps(form)) == form
    assert form == {
        "nodes": [
            {"id": START},
            {
                "id": "a",
                "type": "runnable",
                "data": {"id": ["json", "loads"], "name": "a"},
                "metadata": {"when": 1.5, "who": ["x", {"1": str(print)}], "__interrupt": "before,after"},
                "next": True,
                "questions": ["Sure?"],
            },
            {"id": END},
        ],
        "edges": [
            {"source": START, "target": "a"},
            {"source": "a", "target": END, "data": "done", "conditional": True},
        ],
    }
