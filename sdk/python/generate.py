"""Writes `src/skep/wire` from `proto`. Run it after every change of a `.proto`; `tests/test_wire.py` notices when you forgot.

python generate.py             writes src/skep/wire
python generate.py --to DIR    writes DIR, for comparison
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE / "proto"
WIRE = HERE / "src" / "skep" / "wire"
NAMES = ("agent", "core")

# Those of this interpreter's environment, whatever the PATH has.
PLUGINS = ("protoc-gen-mypy", "protoc-gen-mypy_grpc")

# The plain names `agent.proto` and `core.proto` would clash, in protobuf's one pool of descriptors, with those of any other
# library in the agent's process. As files of this package they clash with nothing, and the imports in what is made are right.
PLACE = Path("skep") / "wire"


def generate(to: Path) -> None:
    """Makes messages, stubs and types of both files in the folder `to`."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        source, out = root / "source", root / "out"
        (source / PLACE).mkdir(parents=True)
        out.mkdir()
        for name in NAMES:
            text = (PROTO / f"{name}.proto").read_text(encoding="utf-8")
            placed = text.replace('import "agent.proto";', f'import "{PLACE}/agent.proto";')
            (source / PLACE / f"{name}.proto").write_text(placed, encoding="utf-8")
        status = protoc.main(
            [
                "protoc",
                f"-I{source}",
                f"-I{resources.files('grpc_tools') / '_proto'}",
                *(f"--plugin={plugin}={Path(sys.executable).parent / plugin}" for plugin in PLUGINS),
                f"--python_out={out}",
                f"--grpc_python_out={out}",
                f"--mypy_out=quiet:{out}",
                f"--mypy_grpc_out=quiet,only_async:{out}",
                *(str(PLACE / f"{name}.proto") for name in NAMES),
            ]
        )
        if status != 0:
            sys.exit(f"protoc ended with {status}")
        to.mkdir(parents=True, exist_ok=True)
        for made in sorted((out / PLACE).iterdir()):
            shutil.copy(made, to / made.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=WIRE, help="folder to write")
    generate(parser.parse_args().to)


if __name__ == "__main__":
    main()
