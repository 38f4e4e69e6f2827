"""Structured output: the model calls a tool whose input is the wanted object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from graphkit_prebuilt.content import (
    Message,
    ToolChoice,
    ToolChoiceToolDict,
    texts,
    tool_results,
    tool_uses,
    user,
)
from graphkit_prebuilt.loop.steps import OVER, Steps, Stream
from graphkit_prebuilt.models.model import output_spec
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.tool import StepTool

if TYPE_CHECKING:
    from pydantic import BaseModel

PROMPT: Final = "Give your answer by calling the tool {name}; text is not an answer."
"""What a model is told that has answered with text instead."""
REFUSED: Final = "structured_output_refused"
"""The stop reason of a turn in which the model gave text twice."""


class OutputTool(StepTool):
    """The tool by which a model gives an instance of `model`; input that does not fit is an error result, and the
    model tries again. Raises `TypeError` unless `model` is a pydantic class."""

    def __init__(self, model: Any, prompt: str | None = None) -> None:
        from pydantic import BaseModel

        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise TypeError(f"structured_output_model must be a pydantic class, not {model!r:.100}")
        self.model: type[BaseModel] = model
        self._spec = output_spec(model)
        self.insisting = user(prompt or PROMPT.format(name=self.tool_name))

    @property
    def tool_type(self) -> str:
        return "structured_output"

    def take(self, context: ToolContext, progress: Any) -> Steps[Any]:
        yield from ()
        self.model.model_validate(context.tool_use["input"])
        return f"{self.tool_name} was accepted."

    def choice(self, log: Sequence[Message]) -> ToolChoice | None:
        """What the model must call: this tool, once it has been told so."""
        if not self._has_insisted(log):
            return None
        choice: ToolChoiceToolDict = {"tool": {"name": self.tool_name}}
        return choice

    def insists(self, log: Sequence[Message]) -> bool:
        """Whether a model that has answered this with text is told to call the tool; only once in a turn."""
        return not self._has_insisted(log)

    def _has_insisted(self, log: Sequence[Message]) -> bool:
        """Whether the last message that a user wrote is the one that insists."""
        for message in reversed(log):
            if message["role"] == "user" and not tool_results(message):
                return bool(message == self.insisting)
        return False

    def read(self, message: Message) -> BaseModel | None:
        """The object that the text of a message is as JSON, of a model that was told to call and cannot be made to;
        None if there is something else in it, or it does not fit."""
        from pydantic import ValidationError

        try:
            return self.model.model_validate_json("".join(texts(message["content"])))
        except ValidationError:
            return None

    def found(self, messages: Sequence[Message]) -> BaseModel | None:
        """The object that was given in the calls whose results come last; None if there was none that fits."""
        if len(messages) < 2:  # a hook has left the calls out
            return None
        calls, results = tool_uses(messages[-2]), tool_results(messages[-1])
        accepted = {result["toolUseId"] for result in results if result["status"] == "success"}
        for use in calls:
            if use["name"] == self.tool_name and use["toolUseId"] in accepted:
                return self.model.model_validate(use["input"])
        return None


def ask_for(
    model: Any, output_model: Any, messages: Sequence[Message], system_prompt: str | None = None
) -> Steps[Any]:
    """The model's answer to a conversation as an instance of a pydantic class, without an agent around it.

    Raises `TypeError` for what is no pydantic class, and what the model's `structured_output` raises.
    """
    OutputTool(output_model)
    stream = Stream(model.structured_output(output_model, list(messages), system_prompt))
    output: Any = None
    while (chunk := (yield stream)) is not OVER:
        if isinstance(chunk, dict) and "output" in chunk:
            output = chunk["output"]
    return output
