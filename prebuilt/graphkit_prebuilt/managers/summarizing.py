"""`SummarizingConversationManager`: a summary in place of the oldest messages."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final

from graphkit.drivers.pools import in_thread
from graphkit.errors import ModelStreamError
from graphkit.frame import depth_below
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import Message, texts, user
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.hooks.catalogue import AfterModelCallEvent, BeforeModelCallEvent
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.steps import OVER, Steps, Stream, blocking, depth_here
from graphkit_prebuilt.managers.cutting import first_after_summary, pinned
from graphkit_prebuilt.managers.manager import ConversationManager
from graphkit_prebuilt.models.model import call_model

__all__ = ["SummarizingConversationManager"]

_log = logging.getLogger(__name__)

REQUEST: Final = "Please summarize this conversation."
PROMPT: Final = """\
You write summaries of conversations between a user and an assistant that calls tools. What you write takes the place of
the messages: whoever goes on with the conversation knows nothing else of them.

Write in the third person and in bullet points:
- what the user wants, and what was asked and answered;
- which tools were called, with what, and what came of it (a call has not failed unless it says so);
- facts, names, numbers, code and decisions that may be needed again;
- what is still open.

Write nothing but the summary. Do not speak to the user, and do not mention which tools there are."""


class SummarizingConversationManager(ConversationManager):
    """When the model could not read the conversation, has its oldest part summarized, and puts the summary there.

    The part is `summary_ratio` of the messages (0.1 to 0.8), but never the last `preserve_recent_messages` nor the
    first `pin_first`; calls stay with their results. The summary is a user's message. It is written by the agent's own
    model, called directly with `summarization_system_prompt`, or by `summarization_agent`, in a conversation of its
    own: giving both is a `ValueError`. Without `proactive_compression` nothing is done before there is an overflow.
    Behaviour: Strands'.
    """

    def __init__(
        self,
        summary_ratio: float = 0.3,
        preserve_recent_messages: int = 10,
        summarization_agent: Any = None,
        summarization_system_prompt: str | None = None,
        *,
        pin_first: int | None = None,
        proactive_compression: bool | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(proactive_compression=proactive_compression)
        if summarization_agent is not None and summarization_system_prompt is not None:
            raise ValueError(
                "summarization_agent and summarization_system_prompt were both given; an agent has its own prompt"
            )
        self.summary_ratio = min(0.8, max(0.1, summary_ratio))
        self.preserve_recent_messages = preserve_recent_messages
        self.summarization_agent = summarization_agent
        self.summarization_system_prompt = summarization_system_prompt
        self.pin_first = pin_first
        self._summary: Message | None = None

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Nothing: a summary costs a call of a model, which is made when there is no way without."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Summarize. With `e`, raises that if there is too little to summarize, and what the summary failed with;
        without, leaves the conversation as it is then."""
        messages = agent.messages
        stays = pinned(messages, self.pin_first)
        most = min(
            max(1, int(len(messages) * self.summary_ratio)), len(messages) - self.preserve_recent_messages
        )
        cut = first_after_summary(messages, most) if most > 0 else None
        if cut is None or cut <= stays:
            if e is not None:
                e.add_note(f"of {len(messages)} messages there are too few to summarize")
                raise e
            return
        try:
            summary = self._summarize(agent, messages[stays:cut])
        except Exception:
            if e is not None:
                raise
            _log.warning("the conversation could not be summarized and stays as it is", exc_info=True)
            return
        self.removed_message_count += cut - stays - (self._summary in messages[stays:cut])
        self._summary = copied(summary)
        messages[stays:cut] = [summary]

    def _is_due(self, invocation: Invocation) -> bool:
        return False

    # A summary takes as long as a call of a model; an event loop must not wait for it.

    async def _before_a_large_call(self, event: BeforeModelCallEvent) -> None:
        if self._is_large(event):
            await in_thread(depth_here(), super()._before_a_large_call, event)

    async def _after_model_call(self, event: AfterModelCallEvent) -> None:
        await in_thread(depth_here(), super()._after_model_call, event)

    def _summarize(self, agent: Any, messages: list[Message]) -> Message:
        said = [*copied(messages), user(REQUEST)]
        if self.summarization_agent is None:
            answer = blocking(self._ask(agent.model, said), depth_below())
        else:
            answer = self._have_asked(self.summarization_agent, said)
        content = texts(answer["content"])
        if not any(text.strip() for text in content):
            raise ModelStreamError(f"the summary of the conversation has no text: {answer!r:.200}")
        return user(*content)

    def _ask(self, model: Any, messages: list[Message]) -> Steps[Message]:
        assembly = Assembly()
        prompt = self.summarization_system_prompt
        stream = Stream(call_model(model, messages, (), PROMPT if prompt is None else prompt))
        while (chunk := (yield stream)) is not OVER:
            assembly.feed(chunk)
        assembly.finish()
        return assembly.message

    def _have_asked(self, agent: Any, messages: list[Message]) -> Message:
        thread_id = f"summary-{uuid.uuid4().hex}"
        try:
            message: Message = agent(messages, thread_id=thread_id).message
            return message
        finally:
            agent.thread(thread_id).delete()
