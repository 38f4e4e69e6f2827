"""The example of drawing shows the graph, its nested graph, and where the thread waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "drawing" / "main.py"


def test_it_draws_the_graph_and_the_question_of_the_thread(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM), "--output", str(tmp_path / "pictures")],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    mermaid, text = ran.stdout.split("\n\n", 1)
    assert "\tcheck -. faults .-> write;" in mermaid
    assert "ask_editor" not in mermaid
    assert "+ check -" in text
    assert "? How many faults has 'A" in text
    assert text.count("#############") >= 2
    assert (tmp_path / "pictures" / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert b"How many faults" in (tmp_path / "pictures" / "thread.svg").read_bytes()
    assert str(tmp_path / "pictures" / "thread.svg") in text.splitlines()[-1]
