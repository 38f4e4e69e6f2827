"""Which model is meant by what an agent was given as one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any, cast

from graphkit_prebuilt.models.model import Model
from graphkit_prebuilt.streaming import StreamEvent

VARIABLE = "GRAPHKIT_MODEL"


class MissingModel(Model):
    """Stands for the model that an agent was not given: calling it is a `ValueError` that says how to give one."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def update_config(self, **model_config: Any) -> None:
        raise self._error()

    def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[StreamEvent]:
        raise self._error()

    @staticmethod
    def _error() -> ValueError:
        return ValueError(
            "this agent has no model: pass one, Agent(model=...), set Agent.default_model for all agents, or name "
            f'one in the environment variable {VARIABLE} ("provider:model")'
        )


def resolve_model(model: Any = None) -> Model:
    """The model that is meant: `model` itself if it has `stream` and `get_config` (`Model`, and Strands' providers).

    A text `"provider:model"`, or a model of pydantic-ai, is called through pydantic-ai (extra `models`), a chat model
    of LangChain through its own methods. None is the model that the environment variable GRAPHKIT_MODEL names, else
    one that cannot be called. No provider is asked for anything before the first call. `ValueError` for a text without
    a provider, `TypeError` for what is no model, `ImportError` without the extra.
    """
    if model is None:
        named = os.environ.get(VARIABLE)
        return resolve_model(named) if named else MissingModel()
    if isinstance(model, str):
        provider, colon, name = model.partition(":")
        if not (provider and colon and name):
            raise ValueError(
                f'{model!r} names no model: write "provider:model", as in "anthropic:claude-sonnet-4-6"'
            )
        return _through_pydantic_ai(model)
    if not isinstance(model, type):
        if hasattr(model, "bind_tools") and hasattr(model, "stream"):
            from graphkit_prebuilt.models.langchain import LangChainModel

            return LangChainModel(model)
        if hasattr(model, "stream") and hasattr(model, "get_config"):
            return cast(Model, model)
        if hasattr(model, "request_stream") and hasattr(model, "model_name"):
            return _through_pydantic_ai(model)
    raise TypeError(
        f"{model!r} is no model: give an object with stream() and get_config(), a chat model of LangChain, or a name "
        '"provider:model"' + (" (this is a class; make an instance)" if isinstance(model, type) else "")
    )


def _through_pydantic_ai(model: Any) -> Model:
    from graphkit_prebuilt.models.pydantic_ai import PydanticAIModel

    return PydanticAIModel(model)
