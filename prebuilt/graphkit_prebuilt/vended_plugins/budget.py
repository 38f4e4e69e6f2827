"""`BudgetGuard`: the model is not called any more when what it may use is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from graphkit_prebuilt.directive import ResumeDirective
from graphkit_prebuilt.halting import HaltSignal
from graphkit_prebuilt.hooks.catalogue import AfterModelCallEvent, BeforeModelCallEvent
from graphkit_prebuilt.hooks.order import HookOrder
from graphkit_prebuilt.plugins import Plugin, hook
from graphkit_prebuilt.streaming import Usage

__all__ = ["BudgetGuard"]


@dataclass
class Amounts:
    """Calls of the model, tokens that they read and said, and what that cost."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass
class Account:
    """What was used, and what was granted beyond the limits."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    granted_turns: int = 0
    granted_tokens: int = 0
    granted_cost: float = 0.0


class BudgetGuard(Plugin):
    """Halts the agent before a call of the model when `max_turns` calls, `max_tokens` or `max_cost` are used up.

    The result has the stop reason "budget_exceeded", and in `data` which of them it is (`exceeded`), what was `used`
    and what the `limits` are now. `agent.resume("budget_guard", {"tokens": 5000})` grants more and goes on; a resume
    that grants nothing is a `ValueError`, and the agent stays halted. `cost` makes a number of the usage of one call.

    It counts for a conversation, or, with `per_invocation`, for a turn; looked at between two calls of the model, so
    one call may go above a limit. Raises `ValueError` without a limit, for one that is not positive, and for `max_cost`
    without `cost`.
    """

    def __init__(
        self,
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        cost: Callable[[Usage], float] | None = None,
        per_invocation: bool = False,
        name: str = "budget_guard",
    ) -> None:
        given = {"turns": max_turns, "tokens": max_tokens, "cost": max_cost}
        self.limits: dict[str, float] = {key: most for key, most in given.items() if most is not None}
        if not self.limits:
            raise ValueError("BudgetGuard needs a limit: max_turns, max_tokens or max_cost")
        for key, most in self.limits.items():
            _check(f"max_{key}", most)
        if max_cost is not None and cost is None:
            raise ValueError(
                "BudgetGuard(max_cost=...) needs cost=, which makes a number of the usage of a call"
            )
        self.name = name
        self.per_invocation = per_invocation
        self._cost = cost
        if per_invocation:
            self.invocation_state_type = Account
        else:
            self.state_type = Account

    @hook(order=HookOrder.SDK_FIRST)
    def _guard(self, event: BeforeModelCallEvent) -> None:
        account = self._account(event.agent)
        limits = self._limits(account)
        used = {key: getattr(account, key) for key in asdict(Amounts())}
        exceeded = [key for key, most in limits.items() if used[key] >= most]
        if exceeded:
            raise HaltSignal("budget_exceeded", {"exceeded": exceeded, "used": used, "limits": limits})

    @hook(order=HookOrder.SDK_FIRST)
    def _count(self, event: AfterModelCallEvent) -> None:
        if event.stop_response is None:
            return
        account = self._account(event.agent)
        usage: Any = event.stop_response.message.get("metadata", {}).get("usage") or {}
        account.turns += 1
        account.tokens += usage.get("totalTokens", 0)
        if self._cost is not None and usage:
            account.cost += self._cost(usage)
        self._keep(event.agent, account)

    def on_resume(self, agent: Any, data: Any) -> ResumeDirective:
        """`data` is what is granted beyond the limits: `{"turns": 2, "tokens": 1000, "cost": 0.5}`, any of them."""
        if not isinstance(data, Mapping) or not data or not data.keys() <= self.limits.keys():
            raise ValueError(
                f"agent.resume({self.name!r}, ...) takes what is granted, of {', '.join(self.limits)}: "
                f"{{{next(iter(self.limits))!r}: 10}}, not {data!r:.100}"
            )
        account = self._account(agent)
        for key, more in data.items():
            _check(key, more)
            setattr(account, f"granted_{key}", getattr(account, f"granted_{key}") + more)
        self._keep(agent, account)
        return ResumeDirective()

    def _limits(self, account: Account) -> dict[str, float]:
        return {key: most + getattr(account, f"granted_{key}") for key, most in self.limits.items()}

    def _account(self, agent: Any) -> Account:
        account: Account = agent.get_plugin_state(self.name, per_invocation=self.per_invocation)
        return account

    def _keep(self, agent: Any, account: Account) -> None:
        agent.set_plugin_state(self.name, account, per_invocation=self.per_invocation)


def _check(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not number > 0:
        raise ValueError(f"BudgetGuard: {name} must be a positive number, not {number!r}")
