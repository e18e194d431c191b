"""HiveKernel's model client, by its names. It asks whatever the environment names: in a room that is the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skep.llm.dialect import FORMATS, Json
from skep.llm.endpoint import Endpoint, ModelError
from skep.llm.model import TIERS_OF_NAMES

MODEL_MAP = dict(TIERS_OF_NAMES)


class LLMClient:
    """Chat completions with text in and text out, and what they used in all."""

    def __init__(self, api_key: str, default_model: str = "") -> None:
        self._endpoint = Endpoint.of_key(api_key)
        self._default_model = MODEL_MAP.get(default_model, default_model) or MODEL_MAP["mini"]
        self._total_tokens = 0

    @property
    def total_tokens(self) -> int:
        return self._total_tokens

    async def chat(
        self, messages: Sequence[Json], model: str = "", system: str = "", max_tokens: int = 4096, temperature: float = 0.7
    ) -> str:
        answer = await self.chat_with_tools(messages, None, model, system, max_tokens, temperature)
        return str(answer["message"]["content"])

    async def chat_with_tools(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] | None = None,
        model: str = "",
        system: str = "",
        max_tokens: int = 4096,
        temperature: float = 0.7,
    ) -> dict[str, Any]:
        wanted = MODEL_MAP.get(model, model) or self._default_model
        body = FORMATS["chat"].body(wanted, system, messages, (), max_tokens)
        body["temperature"] = temperature
        if tools:
            body.update(tools=list(tools), tool_choice="auto")
        reply = FORMATS["chat"].reply(await self._endpoint.post(body))
        self._total_tokens += reply.usage.total_tokens
        return {"message": {**reply.message, "content": reply.text}, "finish_reason": reply.stop or "stop"}

    async def complete(self, prompt: str, **options: Any) -> str:
        return await self.chat([{"role": "user", "content": prompt}], **options)


__all__ = ["MODEL_MAP", "LLMClient", "ModelError"]
