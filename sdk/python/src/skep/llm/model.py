"""A model with its name, its endpoint and what it used, and the loop in which it calls tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast, get_args

from skep.agent import Agent
from skep.llm.dialect import FORMATS, Call, Dialect, Json, MalformedAnswerError, Outcome, Reply, Usage
from skep.llm.endpoint import Endpoint, ModelError
from skep.llm.tool import Tool, ToolInputError

TIERS_OF_NAMES: Final = {"opus": "strategic", "sonnet": "tactical", "haiku": "operational", "mini": "operational"}
"""The short names of HiveKernel's models, as the tiers that the operator's `models:` points to models."""

DIALECT_KEY: Final = "skep.dialect"
"""Where a spawn may say which dialect the agent's model speaks."""

TURNS_MAX: Final = 16
"""Turns of a loop where the caller names none: beyond it a model mostly repeats itself."""

OUTPUT_TOKENS_MAX: Final = 4096


class TurnLimitError(RuntimeError):
    """A loop that did not come to an end. `messages` is the conversation so far, `usage` what it used."""

    def __init__(self, turns: int, messages: list[Json], usage: Usage) -> None:
        super().__init__(f"the model still calls tools after {turns} turns")
        self.messages = messages
        self.usage = usage


@dataclass(frozen=True)
class Answer:
    """How a loop ended: the model's last text, and how it came to it."""

    text: str
    messages: list[Json]
    usage: Usage
    turns: int
    stop: str


class Model:
    """A model that an agent asks."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint | None = None,
        system: str = "",
        output_tokens_max: int = OUTPUT_TOKENS_MAX,
        on_usage: Callable[[Usage], None] | None = None,
    ) -> None:
        self.name = TIERS_OF_NAMES.get(name, name)
        self.endpoint = endpoint or Endpoint.find("anthropic" if "claude" in name else None)
        self.system = system
        self.output_tokens_max = output_tokens_max
        self.usage = Usage()
        self._on_usage = on_usage
        self._format = FORMATS[self.endpoint.dialect]

    @staticmethod
    def of(agent: Agent, name: str | None = None, endpoint: Endpoint | None = None) -> Model:
        """The model that the agent was spawned with, with its system prompt; what it uses is in the agent's heartbeats.

        An agent without a model asks for its tier, which the operator has pointed to one.
        """
        wanted = name or agent.config.model or agent.tier
        if endpoint is None and (dialect := agent.config.metadata.get(DIALECT_KEY)):
            if dialect not in get_args(Dialect):
                raise ModelError(f"`{DIALECT_KEY}` is `{dialect}`, not one of {', '.join(get_args(Dialect))}")
            endpoint = Endpoint.find(cast("Dialect", dialect))

        def report(usage: Usage) -> None:
            agent.report_usage(tokens=usage.total_tokens, context_tokens=usage.total_tokens)

        return Model(wanted, endpoint, agent.config.system_prompt, on_usage=report)

    async def ask(self, prompt: str, system: str | None = None) -> str:
        """One question, one answer, no tools."""
        return (await self.run(prompt, system=system)).text

    async def run(
        self,
        prompt: str,
        tools: Sequence[Tool] = (),
        *,
        system: str | None = None,
        messages: Sequence[Json] = (),
        turns_max: int = TURNS_MAX,
    ) -> Answer:
        """Lets the model work on a prompt until it calls no more tools. The calls of one turn run at the same time.

        `messages` is a conversation to go on with, as an earlier `Answer` has it.
        """
        if turns_max < 1:
            raise ValueError("a model needs at least one turn")
        known = {one.name: one for one in tools}
        if len(known) != len(tools):
            raise ValueError("two tools have the same name")
        said = self.system if system is None else system
        talk: list[Json] = [*messages, {"role": "user", "content": prompt}]
        used = Usage()
        for turn in range(1, turns_max + 1):
            reply = await self._turn(said, talk, tools)
            used += reply.usage
            talk.append(reply.message)
            if not reply.calls:
                return Answer(reply.text, talk, used, turn, reply.stop)
            outcomes = await asyncio.gather(*(carry_out(known, call) for call in reply.calls))
            talk.extend(self._format.outcomes(outcomes))
        raise TurnLimitError(turns_max, talk, used)

    async def _turn(self, system: str, messages: Sequence[Json], tools: Sequence[Tool]) -> Reply:
        body = self._format.body(self.name, system, messages, tools, self.output_tokens_max)
        try:
            reply = self._format.reply(await self.endpoint.post(body))
        except MalformedAnswerError as error:
            raise ModelError(str(error)) from error
        self.usage += reply.usage
        if self._on_usage is not None:
            self._on_usage(reply.usage)
        return reply


async def carry_out(tools: dict[str, Tool], call: Call) -> Outcome:
    """Runs one call. What goes wrong is told to the model, which can do better; only a cancellation ends the loop."""
    tool = tools.get(call.name)
    if tool is None:
        return Outcome(call, f"there is no tool `{call.name}`", is_error=True)
    if call.broken is not None:
        return Outcome(call, call.broken, is_error=True)
    try:
        return Outcome(call, await tool.call(call.arguments))
    except ToolInputError as error:
        return Outcome(call, str(error), is_error=True)
    except Exception as error:
        return Outcome(call, f"{type(error).__name__}: {error}", is_error=True)
