"""The examples as a person runs them: real processes, and a model that follows `examples/model.txt`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from scripted_model import ScriptedModel, by_script
from small_kernel import SmallKernel

from skep.wire import agent_pb2 as wire
from skep.wire import core_pb2

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@contextlib.asynccontextmanager
async def kernel() -> AsyncIterator[tuple[SmallKernel, ScriptedModel]]:
    with ScriptedModel(by_script(EXAMPLES / "model.txt")) as model:
        small = SmallKernel({"PYTHONPATH": str(EXAMPLES), **model.environment}, require_secret=True)
        await small.start()
        try:
            yield small, model
        finally:
            await small.stop()


async def run(small: SmallKernel, image: str, description: str, **params: str) -> core_pb2.ExecuteTaskResponse:
    entries = json.loads((EXAMPLES / "startup.json").read_text(encoding="utf-8"))["agents"]
    assert image in [entry["runtime_image"] for entry in entries] or image == "price_checker:PriceChecker"
    role = wire.ROLE_TASK if image == "price_checker:PriceChecker" else wire.ROLE_LEAD
    request = wire.SpawnRequest(name="example", role=role, cognitive_tier=wire.COG_TACTICAL, runtime_image=image)
    answer = await small.spawn(small.rows[1], request)
    assert answer.success, answer.error
    task = wire.TaskRequest(task_id="t-1", description=description, params=params)
    return await asyncio.wait_for(small.execute(small.rows[answer.child_pid], task), 60)


async def test_the_price_checker_reads_a_page_and_warns() -> None:
    async with kernel() as (small, model):
        done = await run(small, "price_checker:PriceChecker", "", product_id="kettle", threshold="1000")
        assert (done.success, done.result.output) == (True, "price of kettle: 1290")
        assert [one.issue for _, one in small.escalations] == ["price anomaly: kettle = 1290"]
        assert [json.loads(one.payload) for one in small.rows[1].inbox] == [{"id": "kettle", "price": 1290.0}]
        # The model read the page before it answered.
        assert "in stock: 1290" in json.dumps(model.requests[-1][2])


async def test_the_price_checker_fails_without_a_price() -> None:
    async with kernel() as (small, _):
        failed = await run(small, "price_checker:PriceChecker", '{"product_id": "ghost"}')
        assert (failed.success, failed.error) == (False, "task failed: nobody knows the price of `ghost`")
        assert small.rows[1].inbox == []


async def test_the_coordinator_has_every_product_checked() -> None:
    async with kernel() as (small, _):
        done = await run(small, "coordinator:Coordinator", '{"products": "kettle, pan"}')
        assert done.success, done.error
        assert json.loads(done.result.output) == [{"id": "kettle", "price": 1290.0}, {"id": "pan", "price": 640.0}]
        assert [one.issue for _, one in small.escalations] == ["price anomaly: kettle = 1290"]
        checkers = [row for row in small.rows.values() if row.request.name.startswith("price-checker-")]
        assert [(row.is_live, row.exit_code) for row in checkers] == [(False, 0), (False, 0)]


async def test_a_checker_that_fails_stops_no_other() -> None:
    async with kernel() as (small, _):
        done = await run(small, "coordinator:Coordinator", "", products="ghost,pan")
        assert (done.success, done.result.exit_code) == (True, 1)
        ghost, pan = json.loads(done.result.output)
        assert (ghost["price"], "nobody knows" in ghost["why"], pan["price"]) == (None, True, 640.0)


async def test_the_team_answers_and_reports() -> None:
    async with kernel() as (small, model):
        done = await run(small, "research_team:Lead", "bees")
        assert done.success, done.error
        assert done.result.output == "Bees live in hives and share work without orders."
        stored = {key: request.content.decode() for key, (_, request, _) in small.artifacts.items()}
        assert stored == {
            "research/bees/0": "Bees live in hives, and people keep them in skeps.",
            "research/bees/1": "Each bee does the work of its age, and no bee gives orders.",
            "research/bees/report": "Bees live in hives and share work without orders.",
        }
        workers = [row for row in small.rows.values() if row.request.name.startswith("researcher-")]
        assert [row.is_live for row in workers] == [False, False]
        assert len(model.requests) == 4
        assert stored["research/bees/0"] in model.requests[-1][2]["messages"][-1]["content"]
