"""The example of going back, run as a user runs it, again and again on one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "time_travel" / "main.py"
PRINTED = [
    "the first time:",
    "  choosing a topic",
    "  outlining bees",
    "  writing",
    "  publishing",
    "THREE FACTS ABOUT BEES, AT LENGTH",
    "with another topic:",
    "  outlining ants",
    "  writing",
    "  publishing",
    "THREE FACTS ABOUT ANTS, AT LENGTH",
    "with another outline, inside the author:",
    "  writing",
    "  publishing",
    "ONE FACT ABOUT ANTS, AT LENGTH",
    "checkpoints: 11",
]


def test_each_branch_repeats_only_what_follows_it(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path / "page.sqlite")]
    for _ in range(2):
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
        assert printed.splitlines() == PRINTED
