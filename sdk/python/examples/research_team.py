"""A lead and its workers: the lead asks a model for questions, each worker answers one, and the lead writes the report.

Workers keep what they found as artifacts, which the lead reads and a later task can read again.
"""

from __future__ import annotations

import asyncio
import json
import os

from skep import Agent, Task, TaskResult
from skep.llm import Model


class Worker(Agent):
    """Answers one question and stores the answer under the given key."""

    async def handle_task(self, task: Task) -> TaskResult:
        model = Model.of(self)
        answer = await model.ask(task.description)
        artifact = await self.store(task.params["key"], answer)
        return TaskResult(output=answer, artifacts={"answer": artifact}, metadata={"tokens": str(model.usage.total_tokens)})


class Lead(Agent):
    """Researches the topic that its task names."""

    async def handle_task(self, task: Task) -> TaskResult:
        topic = task.description
        model = Model.of(self)
        listed = await model.ask(f"List the questions that one must answer about {topic}, with | between them.")
        questions = [question.strip() for question in listed.split("|") if question.strip()]
        await self.report_progress(f"{len(questions)} questions", 10)

        answers = await asyncio.gather(*(self.answer(topic, at, question) for at, question in enumerate(questions)))
        # What there is by now is worth keeping, if somebody stops the task here.
        self.keep_partial(TaskResult(exit_code=1, output="\n".join(answers)))
        await self.report_progress("all answered", 80)

        told = "\n".join(f"- {question} {answer}" for question, answer in zip(questions, answers, strict=True))
        report = await model.ask(f"Write the report about {topic} from these answers:\n{told}")
        artifact = await self.store(f"research/{topic}/report", report, visibility="global")
        return TaskResult(output=report, artifacts={"report": artifact}, metadata={"questions": json.dumps(questions)})

    async def answer(self, topic: str, at: int, question: str) -> str:
        """Has a worker of its own answer one question."""
        pid = await self.spawn(
            f"researcher-{at}",
            "worker",
            "operational",
            "You answer questions in one sentence.",
            agent=Worker,
            env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )
        try:
            key = f"research/{topic}/{at}"
            await self.execute_on(pid, question, {"key": key}, timeout=120)
            return (await self.read_artifact(key)).content.decode()
        finally:
            await self.kill(pid)
