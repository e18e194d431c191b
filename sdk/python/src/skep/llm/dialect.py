"""The two wire formats that an agent speaks to models: OpenAI's Chat Completions and Anthropic's Messages.

A conversation is kept in the format of its dialect, as the model wrote it: signed reasoning and ids of calls go back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from skep.llm.tool import Tool

Dialect = Literal["chat", "anthropic"]
Json = dict[str, Any]


class MalformedAnswerError(ValueError):
    """A response that is not what its dialect promises."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more requests."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.requests + other.requests,
        )


@dataclass(frozen=True)
class Call:
    """A tool that a model wants to call. Arguments that are no JSON stand in `broken`."""

    id: str
    name: str
    arguments: object
    broken: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a call."""

    call: Call
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Reply:
    """One response of a model: its text, the calls that it wants, and the message as it must be sent back."""

    text: str
    calls: tuple[Call, ...]
    usage: Usage
    stop: str
    message: Json


class Format(Protocol):
    """How requests are written and responses are read."""

    path: str

    def headers(self, key: str) -> dict[str, str]: ...

    def body(self, model: str, system: str, messages: Sequence[Json], tools: Sequence[Tool], output_tokens_max: int) -> Json: ...

    def outcomes(self, outcomes: Sequence[Outcome]) -> list[Json]: ...

    def reply(self, response: Mapping[str, Any]) -> Reply: ...


class ChatCompletions:
    """OpenAI's format, which OpenRouter and most model servers speak too."""

    path = "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def body(self, model: str, system: str, messages: Sequence[Json], tools: Sequence[Tool], output_tokens_max: int) -> Json:
        first = [{"role": "system", "content": system}] if system else []
        body: Json = {"model": model, "messages": [*first, *messages], "max_tokens": output_tokens_max}
        if tools:
            body["tools"] = [
                {"type": "function", "function": {"name": one.name, "description": one.description, "parameters": one.schema}}
                for one in tools
            ]
        return body

    def outcomes(self, outcomes: Sequence[Outcome]) -> list[Json]:
        # The format has no mark for a failed call, so the text says it.
        return [
            {"role": "tool", "tool_call_id": one.call.id, "content": f"error: {one.text}" if one.is_error else one.text} for one in outcomes
        ]

    def reply(self, response: Mapping[str, Any]) -> Reply:
        try:
            choice = response["choices"][0]
            message = choice["message"]
            calls = tuple(
                chat_call(one["id"], one["function"]["name"], one["function"].get("arguments") or "{}")
                for one in message.get("tool_calls") or []
            )
            text = message.get("content") or ""
            usage = response.get("usage") or {}
            details = usage.get("prompt_tokens_details") or {}
            counted = Usage(
                int(usage.get("prompt_tokens") or 0),
                int(usage.get("completion_tokens") or 0),
                int(details.get("cached_tokens") or 0),
                1,
            )
            if not isinstance(text, str):
                raise MalformedAnswerError("the content is no text")
            return Reply(text, calls, counted, str(choice.get("finish_reason") or ""), dict(message))
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise MalformedAnswerError(f"the response is no chat completion ({type(error).__name__}: {error})") from error


def chat_call(call_id: str, name: str, arguments: str) -> Call:
    try:
        return Call(call_id, name, json.loads(arguments))
    except ValueError as error:
        return Call(call_id, name, None, f"the arguments are no JSON: {error}")


class AnthropicMessages:
    """Anthropic's format."""

    path = "/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def body(self, model: str, system: str, messages: Sequence[Json], tools: Sequence[Tool], output_tokens_max: int) -> Json:
        body: Json = {"model": model, "messages": list(messages), "max_tokens": output_tokens_max}
        if system:
            body["system"] = system
        if tools:
            body["tools"] = [{"name": one.name, "description": one.description, "input_schema": one.schema} for one in tools]
        return body

    def outcomes(self, outcomes: Sequence[Outcome]) -> list[Json]:
        blocks = [{"type": "tool_result", "tool_use_id": one.call.id, "content": one.text, "is_error": one.is_error} for one in outcomes]
        return [{"role": "user", "content": blocks}]

    def reply(self, response: Mapping[str, Any]) -> Reply:
        try:
            blocks = response["content"]
            text = "".join(block["text"] for block in blocks if block["type"] == "text")
            calls = tuple(Call(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use")
            usage = response.get("usage") or {}
            cached = int(usage.get("cache_read_input_tokens") or 0)
            written = int(usage.get("cache_creation_input_tokens") or 0)
            counted = Usage(int(usage.get("input_tokens") or 0) + cached + written, int(usage.get("output_tokens") or 0), cached, 1)
            message = {"role": "assistant", "content": blocks}
            return Reply(text, calls, counted, str(response.get("stop_reason") or ""), message)
        except (KeyError, TypeError, AttributeError) as error:
            raise MalformedAnswerError(f"the response is no message ({type(error).__name__}: {error})") from error


FORMATS: dict[Dialect, Format] = {"chat": ChatCompletions(), "anthropic": AnthropicMessages()}
