"""The class that agents are written with.

An author overrides `handle_task`, and what else is wanted of `on_init`, `on_restore`, `on_message` and `on_shutdown`. The runner
does the rest: it serves the kernel, hands over tasks and messages, and ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from skep.core import Core
from skep.names import Role, Tier
from skep.process import Process
from skep.route import SyscallError
from skep.running import RunningTask
from skep.syscalls import Syscalls
from skep.values import AgentConfig, GrantedTool, Limits, Message, MessageAck, Task, TaskResult
from skep.wire import agent_pb2 as wire


class BaseAgent(Syscalls):
    """What every kind of agent has: its hooks, who it is, and what belongs to the task that it works on."""

    def __new__(cls, *args: Any, **named: Any) -> Self:
        # Here and not in `__init__`, so that a subclass with its own `__init__` need not remember to call ours.
        agent = super().__new__(cls)
        agent._skep = Process()
        return agent

    # What an author writes

    async def on_init(self, config: AgentConfig) -> None:
        """Prepares the agent. An exception means that it cannot work, and ends its process."""

    async def on_restore(self, state: bytes) -> None:
        """Takes back what `on_shutdown` returned in the life before. Called after `on_init`, if there is something."""

    async def on_message(self, message: Message) -> MessageAck:
        """Answers a message. Called once for each message id."""
        return MessageAck()

    async def on_shutdown(self, reason: str) -> bytes | None:
        """Cleans up, and returns what the agent wants back when it is started again."""
        return None

    # Who the agent is

    @property
    def pid(self) -> int:
        return self._skep.pid

    @property
    def ppid(self) -> int:
        return self._skep.ppid

    @property
    def user(self) -> str:
        return self._skep.user

    @property
    def role(self) -> Role:
        return self._skep.role

    @property
    def tier(self) -> Tier:
        return self._skep.tier

    @property
    def config(self) -> AgentConfig:
        return self._skep.config

    @property
    def limits(self) -> Limits:
        return self._skep.limits

    @property
    def tools(self) -> tuple[GrantedTool, ...]:
        return self._skep.tools

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that the kernel gave with `Init`."""
        return self._skep.env

    # What belongs to the task that the calling code works for

    async def report_progress(self, message: str, percent: float = -1) -> None:
        """Tells how far the task is. A percentage below 0 means that nobody knows."""
        await self._task("report_progress").report(
            wire.TaskProgress(type=wire.PROGRESS_UPDATE, message=message, progress_percent=max(0.0, percent))
        )

    def keep_partial(self, result: TaskResult) -> None:
        """Says what is to be kept of the task if it is stopped from here on."""
        self._task("keep_partial").kept = result

    def report_usage(self, tokens: int = 0, context_tokens: int | None = None) -> None:
        """Adds to the tokens that heartbeats tell, and says how full the context is. `skep.llm` does it by itself."""
        if tokens < 0:
            raise ValueError("tokens only add up")
        self._skep.tokens_consumed += tokens
        if context_tokens is not None:
            self._skep.context_tokens = context_tokens

    def _task(self, call: str) -> RunningTask:
        task = self._skep.current
        if task is None:
            raise SyscallError(call, "no task runs here: it works inside `handle_task` only")
        return task

    async def _work(self, task: Task) -> TaskResult:
        """Has the author's code work on a task."""
        raise NotImplementedError


class Agent(BaseAgent):
    """One process of the tree, written in Python."""

    async def handle_task(self, task: Task) -> TaskResult:
        """Works on a task. An exception fails the task with the exception's text."""
        raise NotImplementedError(f"`{type(self).__name__}` has no handle_task")

    @property
    def core(self) -> Core:
        """The rest of the kernel's methods: the process table, cron, the inbox, events."""
        return self._kernel

    async def ask(self, question: str) -> str:
        """Asks whoever gave the task, and waits for the answer: the task is parked until then."""
        return await self._task("ask").ask(question)

    async def _work(self, task: Task) -> TaskResult:
        return await self.handle_task(task)
