"""Drawings: Mermaid text that Mermaid reads as it was meant, and networkx graphs.

Mermaid itself is not at hand here. The escaping was checked once against its own parser (11.17: ids, labels,
ends and boxes of 140 drawings came back as they were); these tests hold on to the rules found then.
"""

from __future__ import annotations

import re
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphkit.constants import END, START
from graphkit.graph.draw import DrawableGraph, DrawEdge, DrawNode


def drawing(*edges: tuple[str, str], nodes: str = "", **options: Any) -> DrawableGraph:
    """A graph with the ends of the edges, and more nodes, one per letter."""
    names = dict.fromkeys([*(end for edge in edges for end in edge), *nodes])
    return DrawableGraph(
        {name: DrawNode(name, name) for name in names}, [DrawEdge(*edge) for edge in edges], **options
    )


def unescaped(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)


def parsed(text: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Labels by identifier, and edges as (source, target, label), of a drawing without boxes."""
    nodes: dict[str, str] = {}
    edges: list[tuple[str, str, str]] = []
    for line in text.splitlines()[1:]:
        if node := re.fullmatch(r' +(\w+)\(?\["([^"]*)"\]\)?', line, re.ASCII):
            nodes[node[1]] = unescaped(node[2])
        else:
            edge = re.fullmatch(r" +(\w+) (?:-->|-\.->|-- (.*) -->|-\. (.*) \.->) (\w+)", line, re.ASCII)
            assert edge is not None, line
            edges.append((edge[1], edge[4], unescaped(edge[2] or edge[3] or "")))
    return nodes, edges


def test_a_whole_drawing() -> None:
    graph = DrawableGraph(
        nodes={
            START: DrawNode(START, START),
            "plan": DrawNode("plan", "plan"),
            "ask me": DrawNode("ask me", "ask me", {"owner": "ops", "cost": 2}),
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
    assert graph.draw_mermaid() == (
        "graph TD\n"
        '    __start__(["start"])\n'
        '    plan["plan<br/><small>interrupt after</small>"]\n'
        '    ask_20_me["ask me<br/><small>owner = ops<br/>cost = 2<br/>'
        'interrupt before<br/>interrupt after</small>"]\n'
        '    __end__(["end"])\n'
        "    __start__ --> plan\n"
        "    plan -. unsure .-> ask_20_me\n"
        "    plan -.-> __end__\n"
        "    ask_20_me -- asked --> plan\n"
    )


@pytest.mark.parametrize("direction", ["TD", "TB", "BT", "LR", "RL"])
def test_the_direction(direction: Any) -> None:
    assert drawing(nodes="a").draw_mermaid(direction=direction).startswith(f"graph {direction}\n")


def test_an_unknown_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="UP"):
        drawing(nodes="a").draw_mermaid(direction="UP")  # type: ignore[arg-type]


def test_an_empty_graph() -> None:
    assert DrawableGraph({}).draw_mermaid() == "graph TD\n"


def test_equal_graphs_give_equal_text_in_the_order_given() -> None:
    graph = drawing((START, "b"), ("b", "a"), ("a", END), interrupt_before=frozenset("ab"))
    again = drawing((START, "b"), ("b", "a"), ("a", END), interrupt_before=frozenset("ba"))
    assert graph.draw_mermaid() == graph.draw_mermaid() == again.draw_mermaid()
    assert list(parsed(graph.draw_mermaid())[0]) == [START, "b", "a", END]


# Escaping


@pytest.mark.parametrize("word", ["end", "graph", "subgraph", "style", "class", "click", "default", "_self"])
def test_words_of_mermaid_are_no_identifiers(word: str) -> None:
    nodes, edges = parsed(drawing((word, "a")).draw_mermaid())
    assert nodes == {f"{word}_": word, "a": "a"}
    assert edges == [(f"{word}_", "a", "")]


def test_identifiers_stay_different() -> None:
    nodes, _ = parsed(
        DrawableGraph(
            {name: DrawNode(name, name) for name in ("a b", "a_20_b", "end", "end_")}
        ).draw_mermaid()
    )
    assert list(nodes.values()) == ["a b", "a_20_b", "end", "end_"]


@pytest.mark.parametrize(
    "text", ['"', "<b>", "a|b", "#35;", "`x`", "[x]", "(x)", "{x}", "a;b", "%%", "a\\n", "-->", "😀"]
)
def test_signs_of_mermaid_are_escaped(text: str) -> None:
    graph = DrawableGraph(
        {"a": DrawNode("a", text, {text: text})}, [DrawEdge("a", "a", conditional=True, label=text)]
    )
    nodes, edges = parsed(graph.draw_mermaid())
    assert nodes == {"a": f"{text}<br/><small>{text} = {text}</small>"}
    assert edges == [("a", "a", text)]


@pytest.mark.parametrize("text", ["__x__", "*x*", "1. x", "# x", "- x", "~x~", "http://x.y"])
def test_signs_of_markdown_are_escaped(text: str) -> None:
    label = re.findall(r'"(.*)"', DrawableGraph({"a": DrawNode("a", text)}).draw_mermaid())[0]
    assert unescaped(label) == text
    assert not re.search(r"\b_|_\b|[*.#~/](?!\d+;)|^- ", label)


def test_words_stay_readable() -> None:
    assert '["my_node-2, or so"]' in DrawableGraph({"a": DrawNode("a", "my_node-2, or so")}).draw_mermaid()


@pytest.mark.parametrize(("text", "shown"), [("a\nb", "a b"), ("  a\t", "a"), ("", "\xa0"), (" \n", "\xa0")])
def test_white_space_is_one_space(text: str, shown: str) -> None:
    graph = DrawableGraph({"a": DrawNode("a", text)}, [DrawEdge("a", "a", label=text)])
    nodes, edges = parsed(graph.draw_mermaid())
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
    nodes, drawn = parsed(graph.draw_mermaid())
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
    assert graph.draw_mermaid() == (
        "graph TD\n"
        '    __start__(["start"])\n'
        '    team["team"]\n'
        '    __end__(["end"])\n'
        '    subgraph team_3a_["team"]\n'
        '        team_3a_write["write"]\n'
        '        subgraph team_3a_research_3a_["research"]\n'
        '            team_3a_research_3a_search["search"]\n'
        '            team_3a_research_3a_end["end"]\n'
        "        end\n"
        "    end\n"
        "    __start__ --> team_3a_research_3a_search\n"
        "    team_3a_write --> __end__\n"
    )


# Faults, and networkx


def test_an_edge_to_nowhere_is_refused_by_name() -> None:
    graph = DrawableGraph({"a": DrawNode("a", "a")}, [DrawEdge("a", "ghost")])
    with pytest.raises(ValueError, match="ghost"):
        graph.draw_mermaid()
    with pytest.raises(ValueError, match="ghost"):
        graph.to_networkx()


def test_to_networkx() -> None:
    graph = DrawableGraph(
        {START: DrawNode(START, START), "x:a": DrawNode("x:a", "a", {"k": 1})},
        [DrawEdge(START, "x:a"), DrawEdge(START, "x:a", conditional=True, label="maybe")],
        interrupt_before=frozenset({"x:a"}),
    )
    result = graph.to_networkx()
    assert type(result) is networkx.MultiDiGraph
    assert {node: result.nodes[node] for node in result} == {
        START: {"name": START, "metadata": None, "interrupt_before": False, "interrupt_after": False},
        "x:a": {"name": "a", "metadata": {"k": 1}, "interrupt_before": True, "interrupt_after": False},
    }
    assert list(result.edges(data=True)) == [
        (START, "x:a", {"conditional": False, "label": None}),
        (START, "x:a", {"conditional": True, "label": "maybe"}),
    ]
