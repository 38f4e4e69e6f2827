"""What a server asks in the middle of a call, and who answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from graphkit.drivers.loops import submit_to_loop
from graphkit_prebuilt.mcp.connection import LOOP

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, ErrorData

_ACTIONS = ("accept", "decline", "cancel")


class Question:
    """One elicitation, until it is answered."""

    def __init__(self, params: ElicitRequestParams) -> None:
        self.params = params
        self.answer: asyncio.Future[ElicitResult | ErrorData] = asyncio.get_running_loop().create_future()

    @property
    def reason(self) -> dict[str, Any]:
        """What a person is shown: `message`, `mode` ("form" or "url"), and `requestedSchema` or `url`."""
        return self.params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "task"})


def result_of_answer(answer: Any) -> ElicitResult:
    """A person's answer as the server gets it.

    `{"action": "accept" | "decline" | "cancel", "content": {...}}` as MCP has it; any other dict is the content of an
    acceptance, True an acceptance without content, False and None decline. Raises `ValueError` for anything else.
    """
    from mcp.types import ElicitResult

    if isinstance(answer, dict):
        if answer.get("action") in _ACTIONS and answer.keys() <= {"action", "content"}:
            return ElicitResult.model_validate(answer)
        return ElicitResult(action="accept", content=answer)
    if answer is True:
        return ElicitResult(action="accept")
    if answer is None or answer is False:
        return ElicitResult(action="decline")
    raise ValueError(
        f"{answer!r:.200} is no answer to an elicitation: give a dict with its content, True, False, None, or "
        f'{{"action": "accept" | "decline" | "cancel", "content": ...}}'
    )


class AskingCall:
    """A call of a tool that comes to its result by way of questions. Lives on the loop of connections."""

    def __init__(self, request: Callable[[AskingCall], Coroutine[Any, Any, CallToolResult]]) -> None:
        self._request = request
        self._task: asyncio.Task[CallToolResult] | None = None
        self._asked: asyncio.Queue[Question] = asyncio.Queue()
        self._question: Question | None = None

    async def go_on(self, answer: ElicitResult | None = None) -> CallToolResult | Question:
        """Begin the call, or give the answer to the question it waits for: the next question, or the result."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._question is not None and answer is not None:
            self._question.answer.set_result(answer)
        asking = asyncio.create_task(self._asked.get())
        try:
            await asyncio.wait({self._task, asking}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                self._question = asking.result()
                return self._question
            return self._task.result()
        finally:
            asking.cancel()

    def leave(self) -> None:
        """Break the call off if it has not ended, from any thread and without waiting for it. The server is told."""
        if self._task is not None and not self._task.done():
            submit_to_loop(self._end(self._task), LOOP)

    async def ask(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Put a question to whoever takes the call on, and wait for the answer."""
        question = Question(params)
        self._asked.put_nowait(question)
        return await question.answer

    async def _run(self) -> CallToolResult:
        _running.set(self)
        return await self._request(self)

    async def _end(self, task: asyncio.Task[CallToolResult]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if self._question is not None and not self._question.answer.done():
            self._question.answer.set_result(_refusal("the call was broken off"))


_running: ContextVar[AskingCall | None] = ContextVar("running", default=None)
"""The call that this context belongs to."""


class Questions:
    """An elicitation callback that puts each question to the call it belongs to. `call` is the only one under way,
    where a server does not say which one asks."""

    def __init__(self) -> None:
        self.call: AskingCall | None = None

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        call = _running.get() or self.call
        if call is None:
            return _refusal("nobody can be asked outside of a call by an agent")
        return await call.ask(params)


def _refusal(message: str) -> ErrorData:
    from mcp.types import INVALID_REQUEST, ErrorData

    return ErrorData(code=INVALID_REQUEST, message=message)
