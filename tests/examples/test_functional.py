"""The example of the functional API, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "functional" / "main.py"


def test_what_has_been_written_is_not_written_again() -> None:
    command = [sys.executable, str(PROGRAM)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
    first, answered, second = printed.split("answers:\n")
    assert "the writer is busy" in first
    written = [line for line in first.splitlines() if "written" in line]
    assert sorted(written) == [f"  written: the {part} of cats" for part in ("beginning", "end", "middle")]
    assert "written" not in answered, "one reviewer is still to answer"
    draft = "the beginning of cats; the middle of cats; the end of cats"
    assert f"  written: {draft}, with more cats\nresult: {draft}, with more cats\n" in second
    assert "  after an essay on cats\n" in second
    assert second.endswith("update: write\n" * 3 + "update: __interrupt__\n")
