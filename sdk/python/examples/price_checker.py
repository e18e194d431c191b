"""A short-lived agent: finds one price, tells its parent, and ends.

It has the role `task`, so it may speak to its parent only, and it works on one task in its life. The price comes from a model that
reads the shop's page by a tool.
"""

from __future__ import annotations

import json
from typing import Annotated

from skep import Agent, Task, TaskResult
from skep.llm import Model, tool

# The shop of this example. An agent with network would fetch the page.
PAGES = {"kettle": "Kettle, 1.7 l, in stock: 1290", "pan": "Pan, 24 cm, in stock: 640"}


@tool
async def shop_page(product: Annotated[str, "the product's id"]) -> str:
    """The page of a product in the shop."""
    if product not in PAGES:
        raise LookupError(f"the shop has no `{product}`")
    return PAGES[product]


class PriceChecker(Agent):
    """Checks one product: `{"product_id": "kettle", "threshold": 1000}`."""

    async def handle_task(self, task: Task) -> TaskResult:
        product, threshold = str(task.inputs["product_id"]), float(task.inputs.get("threshold", 0))
        price = await self.check_price(product)
        if price > threshold:
            await self.escalate(f"price anomaly: {product} = {price:g}", severity="warning")
        found = json.dumps({"id": product, "price": price})
        # The parent waits for this message; a task may send to nobody else.
        await self.send(to_pid=self.ppid, type="price-result", payload=found)
        return TaskResult(output=f"price of {product}: {price:g}", artifacts={"price_data": found})

    async def check_price(self, product: str) -> float:
        prompt = f"What is the price of {product}? Read the shop's page and answer with the number alone."
        answer = await Model.of(self).run(prompt, [shop_page], turns_max=4)
        try:
            return float(answer.text.strip())
        except ValueError:
            raise LookupError(f"nobody knows the price of `{product}`") from None
