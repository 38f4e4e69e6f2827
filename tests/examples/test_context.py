"""The example of a run's context, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "context" / "main.py"


def test_what_fits_is_used_and_what_does_not_is_named() -> None:
    ran = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True, timeout=240
    ).stdout.splitlines()
    assert ran[:3] == ["paid", "refused", "['ada: 70 paid', 'bob: 70 refused']"]
    refusals = ran[3:]
    assert all(line.startswith("graph 'payments' takes a context of Context") for line in refusals)
    assert [line.split("does not fit: ")[1].split(":")[0] for line in refusals] == [
        "user", "limits", "limit", "user"
    ]  # fmt: skip
