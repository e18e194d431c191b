"""The model client against a gateway: the scripted model of these tests, and the real gateway where `SKEP_BIN` names it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from scripted_model import ScriptedModel, by_script

from contract.kernels import SKEP_BIN, TESTS, command, skep

EXAMPLES = TESTS.parent / "examples"
PROGRAM = [sys.executable, str(TESTS / "agents" / "asks_model.py")]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{TESTS}:{EXAMPLES}", **more}


async def under_the_real_gateway(home: Path) -> str:
    """Runs the program in a repository with a policy, on a provider that follows the examples' script."""
    (home / "config.yml").write_text(
        "gateway: {loopback: true}\n"
        f'providers: {{demo: {{url: "script:{EXAMPLES / "model.txt"}"}}}}\n'
        "models: {strategic: demo/scripted, tactical: demo/scripted, operational: demo/scripted}\n",
        encoding="utf-8",
    )
    project = home / "project"
    project.mkdir()
    variables = environment(SKEP_HOME=str(home))
    try:
        await command(variables, ["git", "init", "-q", str(project)])
        shell = 'cd "$1"; shift; exec "$@"'
        await command(variables, ["sh", "-c", shell, "-", str(project), SKEP_BIN, "init"])
        return await command(variables, ["sh", "-c", shell, "-", str(project), SKEP_BIN, "gateway", "run", "--", *PROGRAM])
    finally:
        await skep(variables, "kernel", "stop")


async def under_the_scripted_model() -> str:
    with ScriptedModel(by_script(EXAMPLES / "model.txt")) as model:
        return await command(environment(**model.environment), PROGRAM)


async def test_a_model_calls_a_tool_in_both_dialects(tmp_path: Path) -> None:
    printed = await (under_the_real_gateway(tmp_path) if SKEP_BIN else under_the_scripted_model())
    assert [json.loads(line) for line in printed.splitlines()] == [
        ["chat", "1290", 2, 2, True, True],
        ["anthropic", "1290", 2, 2, True, True],
    ]
