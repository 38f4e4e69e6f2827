"""Door to the registry of callbacks."""

from graphkit_prebuilt.hooks.event import BaseHookEvent, HookEvent
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.hooks.registry import HookCallback, HookProvider, HookRegistry

__all__ = ["BaseHookEvent", "HookCallback", "HookEvent", "HookOrder", "HookProvider", "HookRegistry"]
