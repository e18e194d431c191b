"""This process as the kernel sees it: who it is, what it works on, what it has used.

**Invariant.** The state is read off what is under way, never set: a heartbeat cannot say `idle` while a task runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from skep.core import Core
from skep.names import ROLES, TIERS, Role, State, Tier
from skep.running import CURRENT, RunningTask
from skep.values import AgentConfig, GrantedTool, Limits
from skep.wire import agent_pb2 as wire


@dataclass
class Process:
    """What an `Agent` knows about itself."""

    core: Core | None = None
    pid: int = 0
    ppid: int = 0
    user: str = ""
    role: Role = "task"
    tier: Tier = "operational"
    config: AgentConfig = field(default_factory=AgentConfig)
    limits: Limits = field(default_factory=Limits)
    tools: tuple[GrantedTool, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    running: list[RunningTask] = field(default_factory=list)
    children: set[int] = field(default_factory=set)
    tokens_consumed: int = 0
    context_tokens: int = 0
    tasks_ended: int = 0
    is_stopped: bool = False

    def take(self, init: wire.InitRequest) -> None:
        """Takes over who the kernel says this is. A role or tier that is not in the contract raises `ValueError`."""
        role, tier = ROLES.word(init.role), TIERS.word(init.cognitive_tier)
        config = init.config
        self.pid, self.ppid, self.user, self.role, self.tier = init.pid, init.ppid, init.user, role, tier
        self.config = AgentConfig(config.name, config.system_prompt, config.model, dict(config.metadata))
        self.limits = Limits.read(init.limits)
        self.tools = tuple(GrantedTool(tool.name, tool.description, dict(tool.config), tuple(tool.allowed_paths)) for tool in init.tools)
        self.env = dict(init.env)
        if self.core is not None:
            self.core.pid = init.pid

    @property
    def state(self) -> State:
        """What this process does right now."""
        if self.is_stopped:
            return "dead"
        if self.running:
            return "blocked" if all(task.is_blocked for task in self.running) else "running"
        if self.tasks_ended and self.role == "task":
            return "zombie"
        if self.tasks_ended and self.role == "architect":
            return "sleeping"
        return "idle"

    @property
    def context_usage_percent(self) -> float:
        """How full the model's context is, by the process's own limit; 0 where it has none."""
        window = self.limits.max_context_tokens
        return min(100.0, 100.0 * self.context_tokens / window) if window else 0.0

    @property
    def current(self) -> RunningTask | None:
        """The task that the calling code works for, if it is one of this process."""
        task = CURRENT.get()
        return task if task in self.running else None
