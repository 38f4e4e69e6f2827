"""The examples about attempts and draining, run as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-u", str(EXAMPLES / example / "main.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_attempts() -> None:
    lines = run("attempts")
    assert [line for line in lines if line.startswith("flaky")] == [f"flaky: attempt {n}" for n in (1, 2, 3)]
    assert [line for line in lines if line.startswith("slow")] == [f"slow: page {n} of 3" for n in (1, 2, 3)]
    assert "silent: nothing for 0.2 s, going on without it" in lines
    assert lines[-1] == "cheapest of 2: slow"


def test_draining(tmp_path: Path) -> None:
    for _ in range(2):
        lines = run("draining", "--output", str(tmp_path))
        assert lines == [
            "[start] page 1",
            "[start] page 2",
            "[start] stopped because of SIGTERM",
            "[resume] page 3",
            "[resume] page 4",
            "[resume] printed [1, 2, 3, 4]",
        ]
