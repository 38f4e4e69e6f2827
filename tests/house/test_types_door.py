"""`graphkit.types.interrupt` is the function for LangGraph's users and a module for Strands'."""

from __future__ import annotations

import subprocess
import sys

import pytest

FUNCTION = "from graphkit.types import interrupt; import graphkit; assert interrupt is graphkit.interrupt"
MODULE = "from graphkit.types.interrupt import InterruptResponse, InterruptResponseContent"


@pytest.mark.parametrize("program", [f"{FUNCTION}\n{MODULE}\n{FUNCTION}", f"{MODULE}\n{FUNCTION}\n{MODULE}"])
def test_both_are_there_whichever_is_imported_first(program: str) -> None:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
