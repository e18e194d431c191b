"""Agents as real processes under the kernel: their calls inside a task and outside one."""

from __future__ import annotations

import asyncio
import json

import pytest

from contract.kernels import SKEP_BIN, Kernel
from skep.wire import agent_pb2 as wire


async def caller(kernel: Kernel, role: wire.AgentRole.ValueType = wire.ROLE_LEAD) -> int:
    return await kernel.spawn("caller", "agents.plain:Caller", role)


async def test_children_are_spawned_and_killed_inside_a_task(kernel: Kernel) -> None:
    pid = await caller(kernel)
    child = await kernel.call(pid, "spawn", name="kid")
    info = await kernel.king.process_info(child)
    assert (info.ppid, info.name, info.role) == (pid, "kid", wire.ROLE_TASK)
    assert await kernel.call(pid, "kill", pid=child) == [child]


async def test_spawns_at_the_same_time_have_their_own_pids(kernel: Kernel) -> None:
    pid = await caller(kernel)
    pids = await kernel.call(pid, "spawn_many", count=8)
    assert len(set(pids)) == 8
    children = {child.pid: child.name for child in await kernel.king.list_children(recursive=True)}
    assert [children[one] for one in pids] == [f"many-{number}" for number in range(8)]


async def test_a_child_works_for_its_parent(kernel: Kernel) -> None:
    pid = await caller(kernel)
    child = await kernel.call(pid, "spawn_echo")
    assert await kernel.call(pid, "execute_on", pid=child, text="hello") == [0, "hello"]
    code, output = await kernel.execute(pid, json.dumps({"call": "execute_on", "pid": child, "text": "fail"}))
    assert (code, output) == (1, "execute_on failed: task failed: told to fail")


async def test_a_task_ends_and_its_parent_hears_how(kernel: Kernel) -> None:
    pid = await caller(kernel)
    child = await kernel.call(pid, "spawn_echo", role="task")
    assert await kernel.call(pid, "execute_on", pid=child, text="exit") == [7, "seven"]
    assert await kernel.call(pid, "wait_child", pid=child) == [7, "seven"]


async def test_another_ones_child_is_refused(kernel: Kernel) -> None:
    pid = await caller(kernel)
    stranger = await kernel.spawn("stranger", "agents.plain:Echo")
    for call, says in (
        ({"call": "kill", "pid": stranger}, "can only kill own children"),
        ({"call": "execute_on", "pid": stranger, "text": "x"}, "can only execute_on own children"),
        ({"call": "wait_child", "pid": stranger}, "can only wait for own children"),
    ):
        code, output = await kernel.execute(pid, json.dumps(call))
        assert code == 1
        assert says in output


async def test_a_child_sends_to_its_parent(kernel: Kernel) -> None:
    mailbox = await kernel.spawn("mailbox", "agents.plain:Mailbox", wire.ROLE_LEAD)
    pid = await caller(kernel)
    assert await kernel.call(pid, "send", pid=mailbox, text="to a sibling")
    shown = json.loads((await kernel.execute(mailbox, "show"))[1])
    assert [(one["from"], one["payload"], one["relation"]) for one in shown] == [(pid, "to a sibling", "sibling")]


async def test_artifacts_go_from_one_agent_to_another(kernel: Kernel) -> None:
    first, second = await caller(kernel), await caller(kernel)
    assert await kernel.call(first, "store", key="plan", text="build it")
    assert await kernel.call(second, "get", key="plan") == "build it"
    assert await kernel.call(second, "list", prefix="pl") == ["plan"]
    await kernel.call(first, "store", key="diary", text="dear", visibility="private")
    assert await kernel.call(first, "get", key="diary") == "dear"
    assert await kernel.call(second, "get", key="diary") is None
    # What is one's own no other replaces, whether its key is free for others or not.
    await kernel.execute(second, json.dumps({"call": "store", "key": "diary", "text": "mine"}))
    assert await kernel.call(first, "get", key="diary") == "dear"
    code, output = await kernel.execute(second, json.dumps({"call": "store", "key": "plan", "text": "mine"}))
    assert (code, output.startswith("store failed: ")) == (1, True)
    assert await kernel.call(first, "get", key="plan") == "build it"


async def test_the_rest_of_the_calls_are_answered(kernel: Kernel) -> None:
    pid = await caller(kernel)
    other = await kernel.spawn("neighbour")
    assert isinstance(await kernel.call(pid, "escalate", text="help"), str)
    assert await kernel.call(pid, "log", text="line") is None
    assert "neighbour" in await kernel.call(pid, "siblings")
    assert await kernel.call(pid, "resources") > 0
    assert await kernel.call(pid, "request", amount=10) == [True, 10]
    assert await kernel.call(pid, "metric") is None
    assert other


async def test_a_subscription_ends_with_its_loop(kernel: Kernel) -> None:
    pid = await caller(kernel)
    for text in ("one", "two"):
        request = wire.SendMessageRequest(to_queue="work", type="job", payload=text.encode())
        await kernel.king.unary("send", kernel.king.stub.SendMessage, request)
        assert await kernel.call(pid, "subscribe", queue="work") == text


async def test_a_task_may_not_spawn_and_hears_why(kernel: Kernel) -> None:
    pid = await caller(kernel, wire.ROLE_TASK)
    code, output = await kernel.execute(pid, json.dumps({"call": "spawn", "name": "kid"}))
    assert code == 1
    assert "spawn failed: " in output
    assert "denied" in output


async def test_an_agent_may_spawn_while_it_begins(kernel: Kernel) -> None:
    pid = await kernel.spawn("early", "agents.plain:SpawnsAtInit", wire.ROLE_LEAD)
    child = int((await kernel.execute(pid, "child"))[1])
    info = await kernel.king.process_info(child)
    assert (info.ppid, info.name) == (pid, "first-child")


async def test_a_branch_is_killed_whole(kernel: Kernel) -> None:
    pid = await caller(kernel)
    child = await kernel.call(pid, "spawn_echo")
    answer = await kernel.king.unary("kill", kernel.king.stub.KillChild, wire.KillRequest(target_pid=pid, recursive=True))
    assert sorted(answer.killed_pids) == sorted([pid, child])


async def test_agents_run_side_by_side(kernel: Kernel) -> None:
    pids = await asyncio.gather(*(kernel.spawn(f"echo-{number}", "agents.plain:Echo") for number in range(4)))
    results = await asyncio.gather(*(kernel.execute(pid, f"job {pid}") for pid in pids))
    assert [output for _, output in results] == [f"job {pid}" for pid in pids]


@pytest.mark.skipif(bool(SKEP_BIN), reason="looks into the small kernel")
async def test_calls_go_over_the_stream_inside_a_task_and_over_core_outside(kernel: Kernel) -> None:
    small = kernel.small
    assert small is not None
    pid = await caller(kernel)
    await kernel.call(pid, "spawn", name="kid")
    await kernel.call(pid, "escalate", text="help")
    await kernel.call(pid, "log", text="line")
    assert small.calls_over_streams == ["spawn", "escalate", "log"]
    assert small.escalations[-1][1].context == {"who": "caller"}
    assert small.logged[-1][1].fields == {"event_type": "tool_call"}
    assert "escalate" not in small.calls_over_core
    mailbox = await kernel.spawn("mailbox", "agents.plain:Mailbox")
    request = wire.SendMessageRequest(to_pid=mailbox, type="please-log")
    await kernel.king.unary("send", kernel.king.stub.SendMessage, request)
    await kernel.execute(mailbox, "show")
    async with asyncio.timeout(10):
        while not small.calls_over_core.count("log"):
            await asyncio.sleep(0.01)
    assert small.logged[-1][0] == mailbox
    assert small.rows[mailbox].remembers_ids
