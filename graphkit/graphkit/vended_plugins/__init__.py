"""Door to the plugins that are ready to use."""

from graphkit_prebuilt.vended_plugins.approval import ApprovalGate
from graphkit_prebuilt.vended_plugins.budget import BudgetGuard
from graphkit_prebuilt.vended_plugins.call_limits import ToolCallLimits
from graphkit_prebuilt.vended_plugins.hand_over import HandOver
from graphkit_prebuilt.vended_plugins.rate_limit import RateLimiter
from graphkit_prebuilt.vended_plugins.result_cache import ToolResultCache
from graphkit_prebuilt.vended_plugins.service_retry import ServiceRetry

__all__ = [
    "ApprovalGate",
    "BudgetGuard",
    "HandOver",
    "RateLimiter",
    "ServiceRetry",
    "ToolCallLimits",
    "ToolResultCache",
]
