"""HiveKernel's agent with a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hivekernel_sdk.agent import HiveAgent
from hivekernel_sdk.llm import LLMClient
from skep.llm.dialect import Json
from skep.llm.endpoint import Endpoint
from skep.values import AgentConfig


class LLMAgent(HiveAgent):
    """An agent that asks the model it was spawned with, by `ask` and `chat`."""

    llm: LLMClient | None = None
    _system_prompt: str = ""

    async def on_init(self, config: AgentConfig) -> None:
        # The key is looked for at the start, so that an agent without one is never ready.
        self.llm = LLMClient(Endpoint.find("chat").key, default_model=config.model)
        self._system_prompt = config.system_prompt

    async def ask(self, prompt: str, **options: Any) -> str:
        return await self._client.complete(prompt, system=self._system_prompt, **options)

    async def chat(self, messages: Sequence[Json], **options: Any) -> str:
        return await self._client.chat(messages, system=self._system_prompt, **options)

    @property
    def _client(self) -> LLMClient:
        if self.llm is None:
            raise RuntimeError("the agent has no model: a subclass with its own on_init calls super().on_init(config)")
        return self.llm
