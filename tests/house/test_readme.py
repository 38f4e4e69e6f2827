"""The README's programs run and print what it says they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()
PROGRAMS = [block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "import" in block]


def printed(program: str, folder: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_program_prints_what_its_comments_say(tmp_path: Path) -> None:
    assert len(PROGRAMS) >= 2
    for program in PROGRAMS:
        said = re.findall(r"(?:print\(.*\)\s+# |^# )(.*)$", program, re.M)
        promised = [line for line in said if not line.startswith("…")]
        assert promised
        assert printed(program, tmp_path).splitlines() == promised


def test_the_two_commands_are_named() -> None:
    assert "make demo" in README
    assert "make test" in README
