"""Models and tools for agents: a loop in which a model calls typed Python functions.

    from skep.llm import Model, tool

    @tool
    async def price(product: str) -> float:
        '''The price of a product in euros.'''
        return 12.5

    answer = await Model.of(agent).run("What does a kettle cost?", tools=[price])

In its room an agent finds the gateway's addresses and key in its environment; what it spends is on its own account there.
"""

from skep.llm.dialect import Dialect, Usage
from skep.llm.endpoint import Endpoint, ModelError
from skep.llm.model import Answer, Model, TurnLimitError
from skep.llm.tool import Tool, ToolInputError, tool

__all__ = [
    "Model",
    "Answer",
    "tool",
    "Tool",
    "Usage",
    "Dialect",
    "Endpoint",
    "ModelError",
    "ToolInputError",
    "TurnLimitError",
]
