"""Door to plugins."""

from graphkit_prebuilt.directive import ResumeDirective
from graphkit_prebuilt.halting import Halt, HaltSignal
from graphkit_prebuilt.middleware.marks import middleware
from graphkit_prebuilt.plugins import MultiAgentPlugin, Plugin, hook

__all__ = ["Halt", "HaltSignal", "MultiAgentPlugin", "Plugin", "ResumeDirective", "hook", "middleware"]
