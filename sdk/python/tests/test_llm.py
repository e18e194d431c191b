"""Models and tools, in both dialects, over real HTTP."""

from __future__ import annotations

import asyncio
import enum
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from driver import driven
from scripted_model import Json, Said, ScriptedModel

from skep import Agent, Task, TaskResult
from skep.llm import Dialect, Endpoint, Model, ModelError, ToolInputError, TurnLimitError, Usage, tool
from skep.llm import endpoint as endpoint_module
from skep.wire import agent_pb2 as wire

DIALECTS: tuple[Dialect, ...] = ("chat", "anthropic")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    city: str
    floor: int = 0


@tool
async def price(product: Annotated[str, "the product's id"], currency: Literal["EUR", "USD"] = "EUR") -> float:
    """The price of a product."""
    if product == "ghost":
        raise LookupError("no such product")
    return {"kettle": 12.5, "pan": 20.0}[product]


@tool
async def everything(
    text: str,
    count: int,
    share: float,
    sure: bool,
    names: list[str],
    pairs: dict[str, int],
    colour: Colour,
    place: Place,
    maybe: int | None = None,
) -> dict[str, Any]:
    """All kinds of parameters."""
    return {"text": text, "count": count, "share": share, "names": names, "colour": colour.value, "city": place.city, "maybe": maybe}


@pytest.fixture
def scripted() -> Iterator[ScriptedModel]:
    with ScriptedModel(lambda _body: Said("hello")) as model:
        yield model


def model_of(scripted: ScriptedModel, dialect: Dialect, **named: Any) -> Model:
    return Model("m-1", Endpoint.find(dialect, scripted.environment), **named)


def results(body: Json) -> list[tuple[str, bool]]:
    """The results of calls that a request carries, with whether each is an error."""
    found = []
    for message in body["messages"]:
        if message["role"] == "tool":
            found.append((message["content"], message["content"].startswith("error: ")))
        elif message["role"] == "user" and isinstance(message["content"], list):
            found += [(block["content"], block["is_error"]) for block in message["content"]]
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_question_and_its_answer(scripted: ScriptedModel, dialect: Dialect) -> None:
    model = model_of(scripted, dialect, system="be brief")
    assert await model.ask("hi") == "hello"
    path, headers, body = scripted.requests[0]
    assert path == ("/v1/chat/completions" if dialect == "chat" else "/v1/messages")
    if dialect == "chat":
        assert headers["authorization"] == "Bearer sk-skep-test"
        assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    else:
        assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-skep-test", "2023-06-01")
        assert (body["system"], body["messages"]) == ("be brief", [{"role": "user", "content": "hi"}])
    assert (body["model"], body["max_tokens"], "tools" in body) == ("m-1", 4096, False)
    assert model.usage == Usage(10, 5, 0, 1)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_loop_runs_calls_and_counts_usage(scripted: ScriptedModel, dialect: Dialect) -> None:
    answers = [
        Said("let me look", [("price", {"product": "kettle"}), ("price", {"product": "pan", "currency": "USD"})]),
        Said("32.5 in all", usage=(30, 7)),
        Said("still 32.5"),
    ]
    scripted.rule = lambda body: answers[sum(1 for one in body["messages"] if one["role"] == "assistant")]
    model = model_of(scripted, dialect)
    answer = await model.run("add up", [price])
    assert (answer.text, answer.turns, answer.usage) == ("32.5 in all", 2, Usage(40, 12, 0, 2))
    assert results(scripted.requests[1][2]) == [("12.5", False), ("20.0", False)]
    offered = scripted.requests[0][2]["tools"][0]
    shown = offered["function"]["parameters"] if dialect == "chat" else offered["input_schema"]
    assert shown == {
        "type": "object",
        "properties": {"product": {"type": "string", "description": "the product's id"}, "currency": {"enum": ["EUR", "USD"]}},
        "required": ["product"],
        "additionalProperties": False,
    }
    # What the model said goes back as it said it.
    sent_back = [one for one in scripted.requests[1][2]["messages"] if one["role"] == "assistant"]
    assert sent_back == [answer.messages[1]]
    again = await model.run("and once more", messages=answer.messages)
    assert (again.text, len(again.messages)) == ("still 32.5", len(answer.messages) + 2)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("price", {"product": "ghost"}, "LookupError: no such product"),
        ("price", {}, "missing: `product`"),
        ("price", {"product": 5}, "`product` is not a string"),
        ("price", {"product": "pan", "currency": "GBP"}, "`currency` is none of EUR, USD"),
        ("price", {"product": "pan", "shell": "rm"}, "there is no parameter `shell`"),
        ("rm", {}, "there is no tool `rm`"),
    ],
)
async def test_a_call_that_goes_wrong_is_told_to_the_model(
    scripted: ScriptedModel, dialect: Dialect, name: str, given: Json, says: str
) -> None:
    scripted.rule = lambda body: Said("sorry") if results(body) else Said(calls=[(name, given)])
    assert (await model_of(scripted, dialect).run("go", [price])).text == "sorry"
    (text, is_error) = results(scripted.requests[1][2])[0]
    assert is_error
    assert says in text


async def test_arguments_that_are_no_json_are_told_to_the_model(scripted: ScriptedModel) -> None:
    function = {"name": "price", "arguments": '{"product": '}
    broken = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    raw = json.dumps({"choices": [{"message": broken, "finish_reason": "tool_calls"}]}).encode()
    scripted.rule = lambda body: Said("sorry") if results(body) else Said(raw=raw)
    assert (await model_of(scripted, "chat").run("go", [price])).text == "sorry"
    assert "no JSON" in results(scripted.requests[1][2])[0][0]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_loop_without_end_is_ended(scripted: ScriptedModel, dialect: Dialect) -> None:
    scripted.rule = lambda _body: Said(calls=[("price", {"product": "pan"})])
    with pytest.raises(TurnLimitError, match="after 3 turns") as ended:
        await model_of(scripted, dialect).run("go", [price], turns_max=3)
    assert (len(scripted.requests), ended.value.usage.requests) == (3, 3)


async def test_calls_of_one_turn_run_at_the_same_time(scripted: ScriptedModel) -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Waits for the other."""
        await asyncio.wait_for(both.wait(), 5)
        return "met"

    scripted.rule = lambda body: Said("done") if results(body) else Said(calls=[("meet", {}), ("meet", {})])
    await model_of(scripted, "chat").run("go", [meet])
    assert results(scripted.requests[1][2]) == [("met", False), ("met", False)]


@pytest.mark.parametrize(
    ("said", "message", "status"),
    [
        (Said("over budget", status=402), "over budget", 402),
        (Said(status=500, raw=b"<html>oops"), "<html>oops", 500),
        (Said(raw=b"not json"), "no JSON object", 200),
        (Said(raw=b"[1]"), "no JSON object", 200),
        (Said(raw=b'{"error": {"message": "told in a 200"}}'), "told in a 200", 200),
        (Said(raw=b'{"error": "plain"}'), "plain", 200),
        (Said(raw=b"{}"), "the response is no", 0),
        (Said(raw=b'{"choices": []}'), "the response is no", 0),
        (Said(raw=b'{"content": [{"type": "text"}], "choices": [{"message": 5}]}'), "the response is no", 0),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_that_does_not_answer_is_an_error(
    scripted: ScriptedModel, dialect: Dialect, said: Said, message: str, status: int
) -> None:
    scripted.rule = lambda _body: said
    with pytest.raises(ModelError, match=message) as failed:
        await model_of(scripted, dialect).ask("hi")
    assert failed.value.status == status
    assert "sk-skep-test" not in str(failed.value)
    assert len(scripted.requests) == 1


async def test_a_model_that_says_later_is_asked_again(scripted: ScriptedModel) -> None:
    scripted.rule = lambda _body: Said(
        "late" if len(scripted.requests) == 3 else "busy", status=200 if len(scripted.requests) == 3 else 429, headers={"retry-after": "0"}
    )
    assert await model_of(scripted, "chat").ask("hi") == "late"
    scripted.rule = lambda _body: Said("busy", status=429, headers={"retry-after": "0"})
    scripted.requests.clear()
    with pytest.raises(ModelError, match="busy") as failed:
        await model_of(scripted, "chat").ask("hi")
    assert (failed.value.status, len(scripted.requests)) == (429, 3)


async def test_a_long_or_unsaid_wait_is_not_waited(scripted: ScriptedModel) -> None:
    for headers in ({}, {"retry-after": "3600"}, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}):
        scripted.requests.clear()
        scripted.rule = lambda _body, headers=headers: Said("busy", status=503, headers=headers)  # type: ignore[misc]
        with pytest.raises(ModelError, match="busy"):
            await model_of(scripted, "chat").ask("hi")
        assert len(scripted.requests) == 1


async def test_a_response_that_is_too_large_is_not_read(scripted: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "ANSWER_BYTES_MAX", 1000)
    scripted.rule = lambda _body: Said("x" * 2000)
    with pytest.raises(ModelError, match="more than 1000 bytes"):
        await model_of(scripted, "chat").ask("hi")


async def test_nobody_there_is_an_error() -> None:
    model = Model("m", Endpoint("chat", "http://127.0.0.1:1/v1", "k"))
    with pytest.raises(ModelError, match=r"no answer from 127\.0\.0\.1:1"):
        await model.ask("hi")


@pytest.mark.parametrize("url", ["http://example.com/v1", "ftp://127.0.0.1/v1", "nonsense"])
async def test_a_key_is_not_sent_in_the_clear(url: str) -> None:
    with pytest.raises(ModelError, match="unencrypted|no address"):
        await Model("m", Endpoint("chat", url, "k")).ask("hi")


async def test_a_proxy_is_not_asked_for_the_gateway(scripted: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await model_of(scripted, "chat").ask("hi") == "hello"


async def test_a_cancelled_request_hangs_up(scripted: ScriptedModel) -> None:
    scripted.hold = threading.Event()
    asking = asyncio.create_task(model_of(scripted, "chat").ask("hi"))
    while not scripted.requests:
        await asyncio.sleep(0.005)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(scripted.broken.wait, 5)
    scripted.hold.set()


def test_the_environment_names_the_endpoint() -> None:
    room = {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "ANTHROPIC_API_KEY": "a", "OPENROUTER_API_KEY": "r"}
    assert Endpoint.find(environment=room) == Endpoint("chat", "http://127.0.0.1:1/v1", "o")
    assert Endpoint.find("anthropic", room) == Endpoint("anthropic", "https://api.anthropic.com", "a")
    router = {"OPENROUTER_API_KEY": "r", "OPENROUTER_BASE_URL": "http://127.0.0.1:2/v1"}
    assert Endpoint.find(environment=router) == Endpoint("chat", "http://127.0.0.1:2/v1", "r")
    assert Endpoint.of_key("r", {**room, **router}) == Endpoint("chat", "http://127.0.0.1:2/v1", "r")
    assert Endpoint.of_key("o", room) == Endpoint("chat", "http://127.0.0.1:1/v1", "o")
    with pytest.raises(ModelError, match="OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY"):
        Endpoint.find(environment={})
    assert "secret" not in repr(Endpoint("chat", "u", "secret"))


class Thinker(Agent):
    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=await Model.of(self).ask(task.description))


async def test_an_agents_model_is_its_own_and_heartbeats_tell_the_usage(scripted: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in scripted.environment.items():
        monkeypatch.setenv(name, value)
    async with driven(Thinker()) as kernel:
        await kernel.init(
            cognitive_tier=wire.COG_TACTICAL,
            config=wire.AgentConfig(system_prompt="you are leo", metadata={"skep.dialect": "anthropic"}),
            limits=wire.ResourceLimits(max_context_tokens=150),
        )
        assert (await kernel.run("hi")).result.output == "hello"
        await kernel.run("hi")
        path, _, body = scripted.requests[0]
        assert (path, body["model"], body["system"]) == ("/v1/messages", "tactical", "you are leo")
        beat = await kernel.beat()
        assert (beat.tokens_consumed, beat.context_usage_percent) == (30, 10.0)


@pytest.mark.parametrize(("name", "asked"), [("opus", "strategic"), ("sonnet", "tactical"), ("mini", "operational"), ("qwen3", "qwen3")])
def test_short_names_are_tiers(name: str, asked: str) -> None:
    assert Model(name, Endpoint("chat", "http://127.0.0.1:1", "k")).name == asked


async def test_all_kinds_of_parameters_fit() -> None:
    given: Json = {
        "text": "t", "count": 1, "share": 2, "sure": True, "names": ["a"], "pairs": {"x": 1}, "colour": "blue",
        "place": {"city": "Rome"}, "maybe": None,
    }  # fmt: skip
    shown = json.loads(await everything.call(given))
    assert shown == {"text": "t", "count": 1, "share": 2.0, "names": ["a"], "colour": "blue", "city": "Rome", "maybe": None}
    assert everything.schema["properties"]["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert everything.schema["properties"]["place"]["required"] == ["city"]
    for wrong in (
        {"count": True}, {"count": 1.5}, {"sure": 1}, {"names": "a"}, {"names": [1]}, {"pairs": {"x": "1"}}, {"colour": "green"},
        {"place": {"floor": 1}}, {"place": {"city": "Rome", "x": 1}}, {"maybe": "1"},
    ):  # fmt: skip
        with pytest.raises(ToolInputError):
            await everything.call({**given, **wrong})
    with pytest.raises(ToolInputError, match="no object"):
        await everything.call(["text"])


def test_functions_that_no_model_can_call_are_refused() -> None:
    async def unannotated(x) -> None:  # type: ignore[no-untyped-def]
        pass

    async def many(*names: str) -> None:
        pass

    async def odd(thing: object) -> None:
        pass

    def plain(x: int) -> None:
        pass

    for function, says in ((unannotated, "no annotation"), (many, "cannot fill"), (odd, "cannot be shown"), (plain, "not an async")):
        with pytest.raises(TypeError, match=says):
            tool(function)  # type: ignore[arg-type]


async def test_methods_are_tools_too() -> None:
    class Shop:
        async def stock(self, product: str) -> int:
            """How many are there."""
            return len(product)

    assert await tool(Shop().stock).call({"product": "pan"}) == "3"
