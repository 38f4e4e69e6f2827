"""The example of streams, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "streaming" / "main.py"

ANSWER = "{'messages': [{'role': 'assistant', 'content': 'About 384 400 kilometres.', 'id': 'answer'}]}"
PRINTED = {
    "tokens": ["write: About ", "write: 384 ", "write: 400 ", "write: kilometres. "],
    "progress": [
        "desk: custom: {'looked up': '50 %'}",
        "desk: custom: {'looked up': '100 %'}",
        "desk: updates: {'look_up': None}",
        f"answer: updates: {{'write': {ANSWER}}}",
        "desk: updates: {'answer': ",
    ],
    "parts": ["1 messages", "from look_up", "from answer", "2 messages"],
    "debug": [
        "[desk] step 1: look_up starts with ",
        "[desk] step 1: look_up wrote None",
        "[desk] step 2: answer starts with ",
        "[desk > answer] step 1: write starts with ",
        f"[desk > answer] step 1: write wrote {ANSWER}",
        "[desk] step 2: answer wrote ",
    ],
}


@pytest.mark.parametrize("what", PRINTED)
def test_what_a_run_shows(what: str) -> None:
    command = [sys.executable, str(PROGRAM), what]
    lines = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=240
    ).stdout.splitlines()
    assert len(lines) == len(PRINTED[what])
    for line, expected in zip(lines, PRINTED[what], strict=True):
        assert line.startswith(expected)
