"""Drawings as lines of text."""

from __future__ import annotations

from textwrap import dedent

import pytest

from graphkit.constants import END, START
from graphkit.graph.draw import DrawableGraph, DrawEdge, DrawNode


def drawing(nodes: list[str], edges: list[DrawEdge], **marks: object) -> DrawableGraph:
    named = {node: DrawNode(node, node.rpartition(":")[2]) for node in nodes}
    return DrawableGraph(named, edges, **marks)  # type: ignore[arg-type]


def drawn(picture: str) -> str:
    """A picture in a test, without the indentation that it has there."""
    return dedent(picture).strip("\n")


def test_a_branch_a_loop_and_a_node_that_repeats_itself() -> None:
    graph = drawing(
        [START, "agent", "tools", END],
        [
            DrawEdge(START, "agent"),
            DrawEdge("agent", "tools", "calls", True),
            DrawEdge("tools", "agent"),
            DrawEdge("tools", "tools", "again", True),
            DrawEdge("agent", END, None, True),
        ],
    )
    assert graph.draw_ascii() == drawn(
        """
               +-----------+
               | __start__ |
               +-----------+
                     |
                     v
               +-----------+
               |   agent   |
               +-----------+
                 :  ^    :
             +...+  |    :
           calls    |    :
             :      |    :
           +.+      |    +...+
           :  +-----+        :
           v  |              :
        +-------+            :
        | tools |..+ again   :
        |       |<.+         :
        +-------+            :
                             v
                        +---------+
                        | __end__ |
                        +---------+
        """
    )


def test_nested_graphs_are_boxes_with_titles() -> None:
    graph = drawing(
        [START, "team:plan", "team:research:search", "after", END],
        [
            DrawEdge(START, "team:plan"),
            DrawEdge("team:plan", "team:research:search"),
            DrawEdge("team:research:search", "after"),
            DrawEdge("after", END),
        ],
    )
    assert graph.draw_ascii() == drawn(
        """
                +-----------+
                | __start__ |
                +-----------+
                      |
        + team -------|--------+
        |             v        |
        |         +-------+    |
        |         | plan  |    |
        |         +-------+    |
        |             |        |
        | + research -|------+ |
        | |           v      | |
        | |      +---------+ | |
        | |      | search  | | |
        | |      +---------+ | |
        | |           |      | |
        | +-----------|------+ |
        |             |        |
        +-------------|--------+
                      |
                      v
                  +-------+
                  | after |
                  +-------+
                      |
                      v
                 +---------+
                 | __end__ |
                 +---------+
        """
    )


def test_positions_and_questions_have_another_frame() -> None:
    graph = drawing(
        ["box:a", "b", "c"],
        [DrawEdge("b", "c")],
        next=frozenset({"b", "c", "box"}),
        questions={"c": ("Pay this?",)},
    )
    assert graph.draw_ascii() == drawn(
        """
        # box (next) #
        #            #   #########
        # +---+      #   #   b   #
        # | a |      #   # next  #
        # +---+      #   #########
        ##############       |
                             |
                             v
                      ###############
                      #      c      #
                      # ? Pay this? #
                      ###############
        """
    )


def test_wide_and_combining_signs_take_the_columns_they_need() -> None:
    graph = drawing(["北京", "e\u0301te\u0301"], [DrawEdge("北京", "e\u0301te\u0301")])
    assert graph.draw_ascii() == drawn(
        """
        +-------+
        | 北京  |
        +-------+
            |
            v
         +-----+
         | été |
         +-----+
        """
    )


@pytest.mark.parametrize("name", ["a\nb", "a\x07b", "\u202eb", "end", '"<b>"', "x" * 255, "\u0301"])
def test_any_name_leaves_the_frame_whole(name: str) -> None:
    lines = drawing([name], []).draw_ascii().splitlines()
    assert lines[0] == lines[-1] == f"+{'-' * (len(lines[0]) - 2)}+"
    assert all(line.startswith("|") and line.endswith("|") for line in lines[1:-1])


def test_lines_are_ascii_and_end_where_their_text_ends() -> None:
    nodes = [START, *(f"node_{number}" for number in range(6)), END]
    edges = [DrawEdge(one, other, None, True) for one in nodes[:-1] for other in nodes[1:]]
    text = drawing(nodes, edges).draw_ascii()
    assert text.isascii()
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert not text.endswith("\n")


def test_print_ascii_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    graph = drawing(["a"], [])
    graph.print_ascii()
    assert capsys.readouterr().out == f"{graph.draw_ascii()}\n"


def test_an_empty_graph() -> None:
    assert drawing([], []).draw_ascii() == ""
