"""The example of a cached node, run as a user runs it: twice, on the same file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "caching" / "main.py"
RESULTS = ["100 EUR = 108.00 USD", "20 GBP = 25.40 USD", "5 EUR = 5.40 USD"]


def printed(*arguments: str) -> list[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=240
    ).stdout.splitlines()


def test_a_rate_is_looked_up_once(tmp_path: Path) -> None:
    file = str(tmp_path / "rates.sqlite")
    looked_up = ["  looking up EUR ...", RESULTS[0], "  looking up GBP ...", RESULTS[1], RESULTS[2]]
    assert printed(file) == looked_up
    assert printed(file) == RESULTS
    assert printed(file, "--fresh") == looked_up
