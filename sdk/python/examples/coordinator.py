"""A long-lived agent that has others work: one price checker for each product, all at the same time.

Each checker answers by a message to its parent, this agent, and then ends; `wait_child` collects how it ended.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import defaultdict
from typing import Any

from price_checker import PriceChecker

from skep import ACK_ACCEPTED, ACK_ESCALATE, Agent, AgentConfig, Message, MessageAck, SyscallError, Task, TaskResult

ANSWER_SECONDS_MAX = 10.0
"""How long the message of a checker may take after its end: it was sent before, and is only on its way."""


class Coordinator(Agent):
    """Watches the prices of a shop: `{"products": "kettle,pan"}`, or the products of its configuration."""

    def __init__(self) -> None:
        self.products: list[str] = []
        # A message may come before the spawn of its sender has returned.
        self.answers: defaultdict[int, asyncio.Future[Any]] = defaultdict(lambda: asyncio.get_running_loop().create_future())

    async def on_init(self, config: AgentConfig) -> None:
        self.products = names(config.metadata.get("products", ""))

    async def handle_task(self, task: Task) -> TaskResult:
        products = names(str(task.inputs.get("products", ""))) or self.products
        results = await asyncio.gather(*(self.check(product) for product in products))
        missing = [result["id"] for result in results if result["price"] is None]
        return TaskResult(exit_code=1 if missing else 0, output=json.dumps(results))

    async def check(self, product: str) -> dict[str, Any]:
        """Has one product checked. A checker that failed is a product without a price, and stops no other."""
        pid = await self.spawn(
            name=f"price-checker-{product}",
            role="task",
            cognitive_tier="operational",
            system_prompt="You check prices and answer with numbers.",
            initial_task=json.dumps({"product_id": product, "threshold": 1000}),
            agent=PriceChecker,
            env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )
        try:
            ended = await self.wait_child(pid, timeout=60)
            if ended.exit_code != 0:
                return {"id": product, "price": None, "why": ended.output}
            found: dict[str, Any] = await asyncio.wait_for(self.answers[pid], ANSWER_SECONDS_MAX)
        except (SyscallError, TimeoutError) as error:
            return {"id": product, "price": None, "why": str(error) or "no answer came"}
        finally:
            self.answers.pop(pid, None)
        await self.report_progress(f"{product}: {found['price']:g}")
        return found

    async def on_message(self, message: Message) -> MessageAck:
        if message.type == "price-result":
            answer = self.answers[message.from_pid]
            if not answer.done():
                answer.set_result(json.loads(message.payload))
            return MessageAck(status=ACK_ACCEPTED)
        # What this agent does not know goes one level up.
        return MessageAck(status=ACK_ESCALATE)


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
