"""One answer of a model to a conversation, whatever the model is and whatever style the conversation has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from graphkit.errors import StructuredOutputException
from graphkit.frame import Frame
from graphkit.graph.message import new_id
from graphkit.responses import ResponseSchema
from graphkit.runtime import config_of
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import Message, SystemContentBlock, ToolChoiceToolDict, ToolSpec, tool_uses
from graphkit_prebuilt.loop.steps import Steps, Stream
from graphkit_prebuilt.models.langchain import sent, tool_of
from graphkit_prebuilt.models.model import call_model
from graphkit_prebuilt.models.resolve import resolve_model
from graphkit_prebuilt.models.sent import Sent
from graphkit_prebuilt.react.converse import converse_of
from graphkit_prebuilt.react.langchain import invoked
from graphkit_prebuilt.react.past import read
from graphkit_prebuilt.react.reading import completed, role_of, style_of
from graphkit_prebuilt.react.writing import answer, piece, style_for

Kind = Literal["ours", "langchain", "function"]


def model_of(model: Any) -> tuple[Any, Kind]:
    """What is called as the model, and how. A function chooses one for each call. Raises as `resolve_model` does."""
    if model is not None and not isinstance(model, (str, type)):
        if hasattr(model, "invoke") and hasattr(model, "ainvoke"):
            return model, "langchain"
        is_model = any(hasattr(model, name) for name in ("stream", "request_stream"))
        if callable(model) and not is_model:
            return model, "function"
    return resolve_model(model), "ours"


def bound(model: Any, specs: Sequence[ToolSpec], builtin: Sequence[Mapping[str, Any]]) -> Any:
    """A runnable of LangChain that knows of the tools: itself, if somebody has told it of some."""
    if not (specs or builtin) or _knows_tools(model) or not hasattr(model, "bind_tools"):
        return model
    return model.bind_tools([*map(tool_of, specs), *builtin])


def _knows_tools(model: Any) -> bool:
    steps = getattr(model, "steps", None)
    if isinstance(steps, Sequence):  # model | parser, prompt | model
        return any(map(_knows_tools, steps))
    keywords = getattr(model, "kwargs", None)
    return isinstance(keywords, Mapping) and "tools" in keywords


class _Bare(Sent):
    """Of a conversation that was read for this call: there is nothing in it but what a model sees."""

    __slots__ = ()

    def of(self, messages: list[Message]) -> list[Message]:
        return messages


_BARE: Final = _Bare()


def answered(
    model: Any,
    kind: Kind,
    messages: Sequence[Any],
    specs: Sequence[ToolSpec],
    frame: Frame,
    name: str | None,
) -> Steps[Any]:
    """The steps to the message that the model adds to these. Its text is streamed where somebody listens to
    messages."""
    if kind == "langchain":
        return (yield from _answered_by_langchain(model, messages, frame, name))
    said, system, recent = read(messages)
    style = style_for(recent)
    assembly = Assembly()
    chunks = call_model(model, said, specs, _prompt(system), sent=_BARE)
    if "messages" not in frame.attempt.scope.listen:
        message_id = None
        yield Stream(chunks, each=_feeding(assembly))
    else:
        message_id = new_id()

        def show(chunk: Any) -> None:
            assembly.feed(chunk)
            delta = chunk.get("contentBlockDelta")
            if delta is not None and (text := delta["delta"].get("text")):
                frame.emit_message(piece(style, text, message_id))

        yield Stream(chunks, each=show)
    assembly.finish()
    return answer(
        style,
        assembly.message["content"],
        stop_reason=assembly.stop_reason,
        usage=assembly.usage,
        name=name,
        message_id=message_id,
    )


def _prompt(system: list[SystemContentBlock]) -> str | list[SystemContentBlock] | None:
    if len(system) == 1 and system[0].keys() == {"text"}:
        return system[0]["text"]
    return system or None


# --- LangChain --------------------------------------------------------------------------------------------


def _answered_by_langchain(model: Any, messages: Sequence[Any], frame: Frame, name: str | None) -> Steps[Any]:
    given, config = _sendable(messages), {**config_of(frame)}
    message = yield from invoked(model, given, config)
    if name is not None:
        message.name = name
    return message


def _sendable(messages: Sequence[Any]) -> list[Any]:
    """The conversation as LangChain takes it: objects and dicts in the style of chat APIs as they are."""
    sendable: list[Any] = []
    for message in completed(messages):
        # LangChain's objects take long to say what they are no instances of.
        if not issubclass(type(message), dict):
            sendable.append(message)
        elif style_of(message) != "blocks":
            sendable.append(dict(message))
        else:
            said, system = converse_of([message])
            said = said[:1]  # the error results of its calls are not its own
            text = "\n".join(block["text"] for block in system) if role_of(message) == "system" else None
            sendable += sent(said, text)
    return sendable


# --- Structured answers -----------------------------------------------------------------------------------


def structured(model: Any, kind: Kind, messages: Sequence[Any], schema: Any, frame: Frame) -> Steps[Any]:
    """The answer in the form of a schema: a pydantic model, dataclass or TypedDict (an instance of it), or a JSON
    schema. Raises `StructuredOutputException` if the model gives none, `InvalidResponseError` if it does not fit."""
    if kind == "langchain":
        runnable = model.with_structured_output(schema)
        return (yield from invoked(runnable, _sendable(messages), {**config_of(frame)}))
    wanted = ResponseSchema.of(schema)
    json_schema = wanted.json_schema
    name = _schema_name(schema, json_schema)
    spec: ToolSpec = {
        "name": name,
        "description": inspect.getdoc(schema)
        if isinstance(schema, type) and schema.__doc__
        else f"Answer with {name}.",  # type: ignore[typeddict-item]
        "inputSchema": {"json": json_schema},
    }
    said, system = converse_of(messages)
    assembly = Assembly()
    choice: ToolChoiceToolDict = {"tool": {"name": name}}
    yield Stream(call_model(model, said, [spec], _prompt(system), choice), each=_feeding(assembly))
    assembly.finish()
    for use in tool_uses(assembly.message):
        if use.name == name:
            return wanted.validate(use.input)
    raise StructuredOutputException(
        f"the model did not answer with a {name} (it stopped with {assembly.stop_reason!r})"
    )


def _schema_name(schema: Any, json_schema: Mapping[str, Any]) -> str:
    found = getattr(schema, "__name__", None) or json_schema.get("title") or "response"
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in found
    )[:64]


def _feeding(assembly: Assembly) -> Callable[[Any], None]:
    """Reads a stream to its end: a block that is complete is no reason to stop."""

    def feed(chunk: Any) -> None:
        assembly.feed(chunk)

    return feed
