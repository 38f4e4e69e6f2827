"""What `prompt=` of a `create_react_agent` makes of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphkit.engine.program import Callee
from graphkit.frame import Frame
from graphkit.graph.node import callee_of
from graphkit.runtime import config_of, injected
from graphkit_prebuilt.loop.steps import Call, Steps
from graphkit_prebuilt.react.langchain import invoked
from graphkit_prebuilt.react.reading import role_of


def prompt_of(prompt: Any) -> list[Any] | Callee | Any:
    """What stands before the messages; or the function, or the runnable, that makes them of the state."""
    if prompt is None:
        return []
    if isinstance(prompt, str):
        return [{"role": "system", "content": prompt}]
    if hasattr(prompt, "invoke"):
        return prompt
    if isinstance(prompt, dict) or (hasattr(prompt, "content") and hasattr(prompt, "type")):
        role_of(prompt)
        return [prompt]
    if callable(prompt):
        return callee_of(prompt, "prompt")
    raise TypeError(f"prompt= is a text, a message, a function or a runnable, not {prompt!r:.200}")


def prompted(prompt: Any, state: Any, frame: Frame) -> Steps[list[Any]]:
    if isinstance(prompt, Callee):
        function: Callable[..., Any] = prompt.call or prompt.acall  # type: ignore[assignment]
        messages = yield Call(
            function, (state,), injected(prompt.inject, frame), blocks=prompt.call is not None
        )
    else:
        messages = yield from invoked(prompt, state, {**config_of(frame)})
    if hasattr(messages, "to_messages"):
        messages = messages.to_messages()
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return list(messages)
