"""Marking methods of plugins as middleware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from graphkit_prebuilt.middleware.stages import MiddlewarePhase, MiddlewareStage

C = TypeVar("C", bound=Callable[..., Any])

MARK: Final = "__graphkit_middleware__"


def middleware(stage_or_phase: Any, /) -> Callable[[C], C]:
    """Mark a method of a `Plugin` as middleware of a stage, or of one of its phases: `@middleware(ExecuteToolStage)`.

    Raises `TypeError` for what is no stage.
    """
    if not isinstance(stage_or_phase, (MiddlewareStage, MiddlewarePhase)):
        raise TypeError(
            f"@middleware is given a stage, as in @middleware(ExecuteToolStage), not {stage_or_phase!r:.100}"
        )

    def mark(method: C) -> C:
        setattr(method, MARK, stage_or_phase)
        return method

    return mark
