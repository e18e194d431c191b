"""Looks into the wheel and the sdist: what users need is in them, and the wheel works where nothing of the sources is.

python tests/packed.py DIST
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

IN_WHEEL = (
    "skep/__init__.py",
    "skep/py.typed",
    "skep/runner.py",
    "skep/llm/model.py",
    "skep/wire/core_pb2.pyi",
    "skep/wire/core_pb2_grpc.py",
    "hivekernel_sdk/__init__.py",
    "hivekernel_sdk/runner.py",
    "hivekernel_sdk/py.typed",
)
IN_SDIST = ("pyproject.toml", "proto/agent.proto", "generate.py", "tests/contract/test_core.py", "examples/model.txt", "src/skep/py.typed")

USE = """
import sys
sys.path.insert(0, sys.argv[1])
import hivekernel_sdk, skep
assert skep.__file__.startswith(sys.argv[1]), skep.__file__
assert hivekernel_sdk.HiveAgent.__mro__[1].__module__ == "skep.agent"
print(skep.__version__)
"""


def main(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        missing = [name for name in IN_WHEEL if name not in names]
        strays = [name for name in names if not name.startswith(("skep/", "hivekernel_sdk/", "skep-"))]
        with tempfile.TemporaryDirectory() as folder:
            packed.extractall(folder)
            used = subprocess.run([sys.executable, "-c", USE, folder], check=True, capture_output=True, text=True, cwd=folder)
    with tarfile.open(sdist) as packed_source:
        held = {name.partition("/")[2] for name in packed_source.getnames()}
    missing += [name for name in IN_SDIST if name not in held]
    if missing or strays:
        sys.exit(f"missing: {missing}; not ours: {strays}")
    print(f"{wheel.name} and {sdist.name} are whole; skep {used.stdout.strip()} works from the wheel alone")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
