"""Asks the model of its environment in both dialects, with a tool, and prints what came of it."""

from __future__ import annotations

import asyncio
import json
import sys

from price_checker import shop_page

from skep.llm import Dialect, Endpoint, Model


async def main() -> None:
    dialects: tuple[Dialect, ...] = ("chat", "anthropic")
    for dialect in dialects:
        model = Model("operational", Endpoint.find(dialect), system="be brief")
        answer = await model.run("What is the price of kettle? Read the shop's page.", [shop_page])
        told = [dialect, answer.text, answer.turns, answer.usage.requests, answer.usage.input_tokens > 0]
        sys.stdout.write(json.dumps([*told, "in stock: 1290" in json.dumps(answer.messages)]) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
