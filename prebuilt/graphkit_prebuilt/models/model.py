"""What a model is to an agent, and the one place where an agent calls it."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from functools import lru_cache
from threading import Event
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from graphkit.errors import (
    ContextWindowOverflowException,
    ModelStreamError,
    ModelThrottledException,
    StructuredOutputException,
)
from graphkit_checkpoint.watched import copied
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import (
    Message,
    SystemContentBlock,
    SystemPrompt,
    ToolChoice,
    ToolChoiceToolDict,
    ToolSpec,
    texts,
    tool_uses,
)
from graphkit_prebuilt.models.sent import Sent, as_sent
from graphkit_prebuilt.streaming import StreamEvent

if TYPE_CHECKING:
    from pydantic import BaseModel


class Model(ABC):
    """A model as an agent sees it: given a conversation, it streams the next message.

    The shape is Strands', so that providers written for Strands are models here without a change. An agent also takes
    any object that has `stream` and `get_config` of this shape.
    """

    @abstractmethod
    def stream(
        self,
        messages: list[Message],
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        *,
        tool_choice: ToolChoice | None = None,
        system_prompt_content: list[SystemContentBlock] | None = None,
        invocation_state: dict[str, Any] | None = None,
        cancel_signal: Event | None = None,
        **kwargs: Any,
    ) -> AsyncIterable[StreamEvent] | Iterable[StreamEvent]:
        """The chunks of the next message. Usually an async generator.

        What can be iterated over without a loop too is read without one where the agent is called synchronously.
        Messages have role and content, no more; they are the agent's: do not change them. A stream that is left
        early is closed. `system_prompt` is the text of `system_prompt_content`. Of the keywords only those are
        passed that the method declares.

        Raises `ModelThrottledException` if the service has too much to do, `ContextWindowOverflowException` if the
        conversation is too large; the agent's retry strategy and conversation manager wait for these two.
        """

    @abstractmethod
    def get_config(self) -> Any:
        """The settings of the model."""

    @abstractmethod
    def update_config(self, **model_config: Any) -> None:
        """Change these settings, from the next call on."""

    async def structured_output(
        self,
        output_model: type[BaseModel],
        prompt: list[Message],
        system_prompt: str | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Stream the answer as an instance of `output_model`: chunks, and then one `{"output": instance}`.

        The model is made to call a tool whose input is the instance. `StructuredOutputException` if it does not,
        pydantic's `ValidationError` if its input does not fit.
        """
        spec = output_spec(output_model)
        choice: ToolChoiceToolDict = {"tool": {"name": spec["name"]}}
        assembly = Assembly()
        async for chunk in _asynchronously(call_model(self, prompt, [spec], system_prompt, choice)):
            assembly.feed(chunk)
            yield chunk
        assembly.finish()
        for use in tool_uses(assembly.message):
            if use.name == spec["name"]:
                yield {"output": output_model.model_validate(use.input)}
                return
        raise StructuredOutputException(
            f"the model did not answer with a {output_model.__name__} (it stopped with {assembly.stop_reason!r})"
        )


_OURS: Final[Mapping[str, type[Exception]]] = {
    kind.__name__: kind for kind in (ContextWindowOverflowException, ModelThrottledException)
}


def known(error: Exception) -> Exception:
    """What a call of a model has raised; of a provider of Strands, the errors that an agent does something about as
    ours, caused by theirs."""
    for kind in type(error).__mro__:
        if kind.__module__ == "strands.types.exceptions" and kind.__name__ in _OURS:
            ours = _OURS[kind.__name__](str(error))
            ours.__cause__ = error
            return ours
    return error


class Calling(Protocol):
    """What a model is told of the request that calls it."""

    @property
    def invocation_state(self) -> dict[str, Any]: ...
    @property
    def cancel(self) -> Event: ...


def call_model(
    model: Any,
    messages: list[Message],
    specs: Sequence[ToolSpec] = (),
    system_prompt: SystemPrompt = None,
    tool_choice: ToolChoice | None = None,
    invocation: Calling | None = None,
    sent: Sent | None = None,
) -> AsyncIterable[StreamEvent] | Iterable[StreamEvent]:
    """Start a stream of the model, passing what its `stream` takes. Which chunks come is for `Assembly` to judge.

    `sent` is what was sent of the conversation before, if that is of use.
    """
    said = [copied(as_sent(message)) for message in messages] if sent is None else sent.of(messages)
    text: str | None = None
    blocks: list[SystemContentBlock] | None = None
    if not system_prompt:
        pass
    elif isinstance(system_prompt, str):
        text, blocks = system_prompt, [{"text": system_prompt}]
    else:
        text, blocks = "\n".join(texts(system_prompt)) or None, list(system_prompt)
    takes = _keywords(getattr(model.stream, "__func__", model.stream))
    keywords: dict[str, Any] = {}
    if tool_choice is not None and "tool_choice" in takes:
        keywords["tool_choice"] = tool_choice
    if blocks is not None and "system_prompt_content" in takes:
        keywords["system_prompt_content"] = blocks
    if invocation is not None:
        if "invocation_state" in takes:
            keywords["invocation_state"] = invocation.invocation_state
        if "cancel_signal" in takes:
            keywords["cancel_signal"] = invocation.cancel
    stream: Any = model.stream(said, list(specs) or None, text, **keywords)
    if not (hasattr(stream, "__aiter__") or hasattr(stream, "__iter__")):
        raise ModelStreamError(
            f"{type(model).__name__}.stream() gave {stream!r}, which cannot be iterated over: it must be an async "
            "generator, or return an iterable of chunks"
        )
    return cast("AsyncIterable[StreamEvent] | Iterable[StreamEvent]", stream)


def output_spec(output_model: type[BaseModel]) -> ToolSpec:
    """The tool by whose call a model gives an instance of this class. Its name is that of the class, as far as a model
    can call it: `Box[int]` is called "Box_int"."""
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", output_model.__name__).strip("_")[:64] or "output"
    about = inspect.getdoc(output_model) if output_model.__doc__ else None
    return {
        "name": name,
        "description": about or f"Give the answer as {output_model.__name__}.",
        "inputSchema": {"json": output_model.model_json_schema()},
    }


class _Everything:
    """What a function with `**kwargs` takes."""

    def __contains__(self, name: object) -> bool:
        return True


def _keywords(stream: Any) -> frozenset[str] | _Everything:
    """The names that may be passed to a `stream` by keyword."""
    if type(stream) is FunctionType and not stream.__dict__:  # not wrapped, and with no signature of its own
        return _keywords_of(stream.__code__)
    return _keywords_in_signature(stream)


@lru_cache(maxsize=256)
def _keywords_of(code: CodeType) -> frozenset[str] | _Everything:
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return _Everything()
    return frozenset(code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount])


@lru_cache(maxsize=256)
def _keywords_in_signature(stream: Any) -> frozenset[str] | _Everything:
    try:
        parameters = inspect.signature(stream).parameters.values()
    except (TypeError, ValueError):
        return _Everything()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return _Everything()
    return frozenset(
        parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY
    )


async def _asynchronously(stream: Any) -> AsyncGenerator[Any, None]:
    if hasattr(stream, "__aiter__"):
        async for chunk in stream:
            yield chunk
    else:
        for chunk in stream:
            yield chunk
