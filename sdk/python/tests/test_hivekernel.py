"""Agents and clients that were written for HiveKernel's SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from scripted_model import Said, ScriptedModel
from small_kernel import SmallKernel

import hivekernel_sdk
from hivekernel_sdk.client import CoreClient
from skep import SyscallError
from skep.wire import agent_pb2 as wire
from skep.wire import core_pb2_grpc

HERE = Path(__file__).resolve().parent


@contextlib.asynccontextmanager
async def kernel(**environment: str) -> AsyncIterator[SmallKernel]:
    small = SmallKernel({"PYTHONPATH": str(HERE), **environment}, require_secret=True)
    await small.start()
    try:
        yield small
    finally:
        await small.stop()


async def spawn(small: SmallKernel, image: str, **named: Any) -> int:
    request = wire.SpawnRequest(name="old", role=wire.ROLE_LEAD, cognitive_tier=wire.COG_TACTICAL, runtime_image=image, **named)
    answer = await small.spawn(small.rows[1], request)
    assert answer.success, answer.error
    return answer.child_pid


async def run(small: SmallKernel, pid: int, description: str, **params: str) -> wire.TaskResult:
    answer = await small.execute(small.rows[pid], wire.TaskRequest(task_id="t-1", description=description, params=params))
    assert answer.success, answer.error
    return answer.result


async def test_an_agent_with_the_calls_as_second_argument_runs_unchanged() -> None:
    async with kernel() as small:
        pid = await spawn(small, "agents.hive:Old")
        assert small.calls_over_core == ["log"]
        assert json.loads((await run(small, pid, "all")).output) == {
            "greeting": f"old {pid}",
            "art": "art-1",
            "content": "content",
            "said": "noted",
            "task": "t-1",
            "siblings": [],
            "killed": True,
            "ended": True,
        }
        assert small.calls_over_streams == ["spawn", "store", "get_artifact", "log", "escalate", "list_siblings", "kill", "wait_child"]
        assert [report.progress_percent for report in small.progress if report.message == "working"] == [50.0]


async def test_a_reply_reaches_whoever_waits_for_it() -> None:
    async with kernel() as small:
        asks, answers = await asyncio.gather(spawn(small, "agents.hive:Old"), spawn(small, "agents.hive:Answers"))
        assert (await run(small, asks, "reply", to=str(answers))).output == "well"
        assert (await run(small, answers, "x")).output == "plain"


async def test_a_model_of_an_old_agent_is_the_one_of_its_environment() -> None:
    with ScriptedModel(lambda _body: Said("hello")) as model:
        environment = {"OPENROUTER_API_KEY": "r", "OPENROUTER_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}
        async with kernel(**environment) as small:
            pid = await spawn(small, "agents.hive:Talker", model="sonnet", system_prompt="be brief")
            result = await run(small, pid, "hi")
            assert (result.output, dict(result.metadata)) == ("hello", {"tokens": "15"})
            path, headers, body = model.requests[0]
            assert (path, headers["authorization"], body["model"]) == ("/v1/chat/completions", "Bearer r", "tactical")
            assert (body["messages"][0]["content"], body["max_tokens"], body["temperature"]) == ("be brief", 100, 0.7)


async def test_a_model_agent_without_a_key_is_not_ready() -> None:
    async with kernel(OPENROUTER_API_KEY="", OPENAI_API_KEY="", ANTHROPIC_API_KEY="") as small:
        request = wire.SpawnRequest(name="x", role=wire.ROLE_LEAD, cognitive_tier=wire.COG_TACTICAL, runtime_image="agents.hive:Talker")
        answer = await small.spawn(small.rows[1], request)
        assert not answer.success
        assert "no model can be reached" in answer.error


async def test_the_client_for_dashboards_works_over_a_plain_channel() -> None:
    async with kernel() as small, grpc.aio.insecure_channel(small.address) as channel:
        client = CoreClient(channel, pid=1)
        pid = await client.spawn_child("echo", "worker", "tactical", runtime_image="agents.plain:Echo")
        assert (await client.get_process_info(pid)).name == "echo"
        assert [child.pid for child in await client.list_children()] == [pid]
        assert await client.execute_task(pid, "hello") == {"exit_code": 0, "output": "hello", "artifacts": {}, "metadata": {}}
        with pytest.raises(RuntimeError, match="execute_task failed: task failed: told to fail"):
            await client.execute_task(pid, "fail")
        assert await client.send_message(to_pid=pid, type="t", payload=b"x")
        assert await client.store_artifact("k", b"v") == "art-1"
        assert (await client.get_artifact("k")).content == b"v"
        assert [one.key for one in await client.list_artifacts()] == ["k"]
        assert (await client.get_resource_usage()).children_active == 1
        assert (await client.request_resources(amount=1))["granted"] is False
        assert await client.escalate("x") == "noted"
        cron_id = await client.add_cron("n", "* * * * *", pid)
        assert (await client.list_cron())[0]["id"] == cron_id
        assert await client.remove_cron(cron_id)
        assert await client.list_siblings() == []
        await client.report_metric("m", 1.0, model="x")
        assert await client.kill_child(pid) == [pid]
        assert (await client.wait_child(pid))["pid"] == pid
        client.pid = 999
        with pytest.raises(SyscallError, match="process 999 not found"):
            await client.get_process_info()


def test_the_names_that_agents_import_are_there() -> None:
    for name in ("HiveAgent", "LLMAgent", "LLMClient", "SyscallContext", "TaskResult", "Task", "Message", "MessageAck", "AgentConfig"):
        assert name in hivekernel_sdk.__all__
        assert hasattr(hivekernel_sdk, name)
    assert hivekernel_sdk.agent_pb2.SpawnRequest is wire.SpawnRequest
    assert hivekernel_sdk.core_pb2_grpc.CoreServiceStub is core_pb2_grpc.CoreServiceStub
