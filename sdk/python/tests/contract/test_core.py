"""Every method of `CoreService`, as the king asks it from outside a task."""

from __future__ import annotations

import asyncio
import json

import grpc
import grpc.aio
import pytest

from contract.kernels import SKEP_BIN, Kernel
from skep import Core, SyscallError
from skep.wire import agent_pb2 as wire
from skep.wire import core_pb2


async def test_the_king_is_process_1(kernel: Kernel) -> None:
    king = await kernel.king.process_info()
    assert (king.pid, king.name, king.role) == (1, "king", wire.ROLE_KERNEL)
    assert (king.cognitive_tier, king.state, king.user) == (wire.COG_STRATEGIC, wire.STATE_RUNNING, "root")


async def test_a_process_that_is_not_there_is_not_found(kernel: Kernel) -> None:
    with pytest.raises(SyscallError, match="process 9999 not found") as missing:
        await kernel.king.process_info(9999)
    assert missing.value.code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("metadata", "code", "details"),
    [
        ((), grpc.StatusCode.UNAUTHENTICATED, "missing x-hivekernel-pid"),
        ((("x-hivekernel-pid", "abc"),), grpc.StatusCode.INVALID_ARGUMENT, "invalid pid: abc"),
    ],
)
async def test_a_call_without_a_pid_is_refused(
    kernel: Kernel, metadata: tuple[tuple[str, str], ...], code: grpc.StatusCode, details: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await kernel.king.stub.ListChildren(core_pb2.ListChildrenRequest(), metadata=metadata)
    assert (refused.value.code(), refused.value.details()) == (code, details)
    assert isinstance(await kernel.king.list_children(), list)


async def test_spawn_and_list_and_kill(kernel: Kernel) -> None:
    pid = await kernel.spawn("echo", "agents.plain:Echo", model="mini", system_prompt="hi")
    info = await kernel.king.process_info(pid)
    assert (info.name, info.ppid, info.role, info.model) == ("echo", 1, wire.ROLE_WORKER, "mini")
    assert info.runtime_addr
    assert pid in [child.pid for child in await kernel.king.list_children()]
    known = json.loads((await kernel.execute(pid, "who"))[1])
    assert (known["pid"], known["ppid"], known["role"], known["tier"]) == (pid, 1, "worker", "tactical")
    assert (known["name"], known["model"], known["prompt"]) == ("echo", "mini", "hi")
    killed = await kernel.king.unary("kill", kernel.king.stub.KillChild, wire.KillRequest(target_pid=pid, recursive=True))
    assert (killed.success, list(killed.killed_pids)) == (True, [pid])


async def test_a_spawn_that_cannot_start_is_refused_with_a_reason(kernel: Kernel) -> None:
    for image in ("agents.plain:Unready", "agents.nothing:Class"):
        request = wire.SpawnRequest(name="x", role=wire.ROLE_WORKER, cognitive_tier=wire.COG_TACTICAL, runtime_image=image)
        answer = await kernel.king.unary("spawn", kernel.king.stub.SpawnChild, request)
        assert not answer.success
        assert answer.error


async def test_execute_gives_the_result_and_the_failure(kernel: Kernel) -> None:
    pid = await kernel.spawn("echo", "agents.plain:Echo")
    done = await kernel.king.execute_task(pid, "hello", {"a": "b"}, 30)
    assert (done.success, done.result.output, dict(done.result.metadata)) == (True, "hello", {"a": "b"})
    failed = await kernel.king.execute_task(pid, "fail", {}, 30)
    assert (failed.success, failed.error) == (False, "task failed: told to fail")
    assert (await kernel.execute(pid, "after"))[1] == "after"


async def test_wait_has_the_real_exit_code_and_output(kernel: Kernel) -> None:
    pid = await kernel.spawn("once", "agents.plain:Echo", wire.ROLE_TASK, initial_task="exit")
    request = wire.WaitChildRequest(target_pid=pid, timeout_seconds=20)
    ended = await kernel.king.unary("wait_child", kernel.king.stub.WaitChild, request)
    assert (ended.success, ended.pid, ended.exit_code, ended.output) == (True, pid, 7, "seven")


async def test_wait_for_a_stranger_is_refused(kernel: Kernel) -> None:
    request = wire.WaitChildRequest(target_pid=1, timeout_seconds=1)
    refused = await kernel.king.unary("wait_child", kernel.king.stub.WaitChild, request)
    assert not refused.success
    # The real kernel's king is the operator, who may wait for everybody that has an end.
    assert ("process 1 (kernel) is no agent" if SKEP_BIN else "can only wait for own children") in refused.error


async def test_messages_reach_the_agent(kernel: Kernel) -> None:
    pid = await kernel.spawn("mailbox", "agents.plain:Mailbox")
    for text in ("one", "two"):
        request = wire.SendMessageRequest(to_pid=pid, type="note", payload=text.encode(), reply_to="r-1")
        sent = await kernel.king.unary("send", kernel.king.stub.SendMessage, request)
        assert sent.delivered, sent.error
        assert sent.message_id
    shown = json.loads((await kernel.execute(pid, "show", count="2"))[1])
    assert sorted(one["payload"] for one in shown) == ["one", "two"]
    assert {(one["from"], one["type"], one["relation"], one["reply_to"]) for one in shown} == {
        (1, "note", "system" if SKEP_BIN else "parent", "r-1")
    }
    assert len({one["id"] for one in shown}) == 2


async def test_a_message_to_nobody_is_refused(kernel: Kernel) -> None:
    sent = await kernel.king.unary("send", kernel.king.stub.SendMessage, wire.SendMessageRequest(to_pid=9999))
    assert not sent.delivered
    assert sent.error


async def test_a_queue_keeps_messages_for_its_subscriber(kernel: Kernel) -> None:
    for kind, text in (("other", "no"), ("wanted", "first"), ("wanted", "second")):
        request = wire.SendMessageRequest(to_queue="news", type=kind, payload=text.encode())
        assert (await kernel.king.unary("send", kernel.king.stub.SendMessage, request)).delivered
    got = []
    async with asyncio.timeout(20):
        async for message in kernel.king.subscribe("news", "wanted"):
            got.append(message.payload.decode())
            if len(got) == 2:
                break
    assert got == ["first", "second"]


async def test_messages_wait_for_a_process_without_a_program(kernel: Kernel) -> None:
    pid = await kernel.spawn("virtual")
    await kernel.king.unary("send", kernel.king.stub.SendMessage, wire.SendMessageRequest(to_pid=pid, type="t", payload=b"x"))
    assert [(one.type, one.payload) for one in await kernel.king.list_inbox(pid)] == [("t", b"x")]


async def test_artifacts_are_stored_read_and_listed(kernel: Kernel) -> None:
    king = kernel.king
    request = wire.StoreArtifactRequest(key="doc/a", content=b"\x00abc", content_type="text/x", visibility=wire.VIS_GLOBAL)
    stored = await king.unary("store", king.stub.StoreArtifact, request)
    assert stored.success, stored.error
    by_key = await king.unary("get", king.stub.GetArtifact, wire.GetArtifactRequest(key="doc/a"))
    by_id = await king.unary("get", king.stub.GetArtifact, wire.GetArtifactRequest(artifact_id=stored.artifact_id))
    for read in (by_key, by_id):
        assert (read.found, read.content, read.content_type, read.stored_by_pid) == (True, b"\x00abc", "text/x", 1)
    assert [(one.key, one.size_bytes) for one in await king.list_artifacts("doc/")] == [("doc/a", 4)]
    assert await king.list_artifacts("none/") == []
    missing = await king.unary("get", king.stub.GetArtifact, wire.GetArtifactRequest(key="none"))
    assert (missing.found, bool(missing.error)) == (False, True)


async def test_resources_escalation_log_and_metric_are_answered(kernel: Kernel) -> None:
    king = kernel.king
    assert (await king.resource_usage()).tokens_remaining > 0
    pid = await kernel.spawn("child")
    assert (await king.resource_usage()).children_active == 1
    child = Core(kernel.address, pid, kernel.small.rows[pid].secret if kernel.small else None)
    if SKEP_BIN:
        # The suite speaks for the child by its pid alone, which moves no budget.
        with pytest.raises(SyscallError, match="proves nobody"):
            await child.request_resources("tokens", 10, "more")
    else:
        granted = await child.request_resources("tokens", 10, "more")
        assert (granted.granted, granted.granted_amount) == (True, 10)
    answer = await child.unary("escalate", child.stub.Escalate, wire.EscalateRequest(issue="lost", severity=wire.ESC_ERROR), 20)
    assert answer.received
    await child.unary("log", child.stub.Log, wire.LogRequest(level=wire.LOG_INFO, message="hello"))
    await child.report_metric("tokens_consumed", 5)
    await child.close()


async def test_siblings_are_the_other_children(kernel: Kernel) -> None:
    first, second = await kernel.spawn("first"), await kernel.spawn("second")
    core = Core(kernel.address, first, kernel.small.rows[first].secret if kernel.small else None)
    answer = await core.unary("list_siblings", core.stub.ListSiblings, wire.ListSiblingsRequest())
    assert (second, "second", "worker") in [(one.pid, one.name, one.role) for one in answer.siblings]
    assert first not in [one.pid for one in answer.siblings]
    await core.close()


async def test_events_tell_of_a_spawn(kernel: Kernel) -> None:
    events = kernel.king.events()
    first = asyncio.ensure_future(anext(aiter(events)))
    await asyncio.sleep(0)
    # The subscription begins when the kernel has it; spawn until it tells of one.
    async with asyncio.timeout(20):
        while not first.done():
            await kernel.spawn("noticed")
            await asyncio.wait({first}, timeout=0.1)
    event = await first
    assert (event.type, event.name, event.role) == ("spawned", "noticed", "worker")
    assert event.seq > 0


async def test_events_are_taken_up_from_a_number(kernel: Kernel) -> None:
    await kernel.spawn("before")
    events = kernel.king.events(since_seq=1) if (await kernel.spawn("after")) else None
    assert events is not None
    async with asyncio.timeout(20):
        async for event in events:
            if event.name == "after":
                assert event.seq > 1
                break


async def test_the_crontab_is_added_listed_and_removed(kernel: Kernel) -> None:
    pid = await kernel.spawn("echo", "agents.plain:Echo")
    cron_id = await kernel.king.add_cron("hourly", "0 * * * *", pid, "look", {"a": "b"})
    entry = next(one for one in await kernel.king.list_cron() if one.id == cron_id)
    assert (entry.name, entry.cron_expression, entry.target_pid, entry.action) == ("hourly", "0 * * * *", pid, "execute")
    assert (entry.execute_description, dict(entry.execute_params), entry.enabled) == ("look", {"a": "b"}, True)
    await kernel.king.remove_cron(cron_id)
    assert cron_id not in [one.id for one in await kernel.king.list_cron()]
    with pytest.raises(SyscallError, match="remove_cron failed"):
        await kernel.king.remove_cron(cron_id)
    with pytest.raises(SyscallError, match="add_cron failed"):
        await kernel.king.add_cron("bad", "not a cron", pid)


async def test_a_kernel_that_is_not_there_is_told_as_that() -> None:
    core = Core("127.0.0.1:9", 1)
    with pytest.raises(SyscallError, match="process_info failed") as gone:
        await core.process_info()
    assert gone.value.code == "UNAVAILABLE"
    await core.close()
