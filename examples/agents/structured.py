"""An answer as an object: `python examples/agents/structured.py`.

The model is given a tool whose input is a `Meeting`. What does not fit goes back to it as an error, and it tries again;
a text in the place of a call is asked for once more. With `GRAPHKIT_MODEL=provider:model` a real model is asked.
"""

from __future__ import annotations

import os
from datetime import date

from pydantic import BaseModel, Field

from graphkit import Agent
from graphkit.hooks import AfterToolCallEvent
from graphkit.models import ScriptedModel, ToolCall

LETTER = "Ada, Grace and I meet on the 10th of December 2026 to talk about engines. Yours, Emmy"
SCRIPTED = ScriptedModel(
    [
        "They meet in December.",
        ToolCall("Meeting", {"day": "in December", "people": ["Ada", "Grace"], "topic": "engines"}),
        ToolCall("Meeting", {"day": "2026-12-10", "people": ["Ada", "Grace", "Emmy"], "topic": "engines"}),
    ]
)


class Meeting(BaseModel):
    """A meeting that a letter tells of."""

    day: date
    people: list[str] = Field(description="First names of everybody who comes, the writer too")
    topic: str


def show(event: AfterToolCallEvent) -> None:
    print(f"{event.result['status']}: {event.tool_use['input']}")


def main() -> None:
    agent = Agent(None if "GRAPHKIT_MODEL" in os.environ else SCRIPTED, hooks=[show], callback_handler=None)
    result = agent(LETTER, structured_output_model=Meeting)
    meeting = result.structured_output
    assert isinstance(meeting, Meeting)
    print(f"{meeting.day:%d.%m.%Y}, {meeting.topic}: {', '.join(meeting.people)}")


if __name__ == "__main__":
    main()
