"""What is generated is what the protos say, and the protos are the contract's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor, FileDescriptor

from skep.wire import agent_pb2, core_pb2

HERE = Path(__file__).resolve().parent.parent
WIRE = HERE / "src" / "skep" / "wire"


def test_the_generated_files_are_those_of_the_protos(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, str(HERE / "generate.py"), "--to", str(tmp_path)], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in WIRE.iterdir() if "_pb2" in path.name and path.suffix in (".py", ".pyi"))
    assert len(names) == 8
    stale = [name for name in names if (tmp_path / name).read_bytes() != (WIRE / name).read_bytes()]
    assert stale == [], "run generate.py"


def test_the_services_are_whole() -> None:
    agent = agent_pb2.DESCRIPTOR.services_by_name["AgentService"]
    core = core_pb2.DESCRIPTOR.services_by_name["CoreService"]
    assert (agent.full_name, len(agent.methods)) == ("hivekernel.agent.AgentService", 6)
    assert (core.full_name, len(core.methods)) == ("hivekernel.core.CoreService", 22)
    streams = {
        method.name: (method.client_streaming, method.server_streaming)
        for method in (*agent.methods, *core.methods)
        if method.client_streaming or method.server_streaming
    }
    assert streams == {"Execute": (True, True), "Subscribe": (False, True), "SubscribeEvents": (False, True)}


def test_the_wire_is_the_contract_member_by_member() -> None:
    contract = (HERE / "tests" / "wire.txt").read_text(encoding="utf-8").splitlines()[1:]
    files = (agent_pb2.DESCRIPTOR, core_pb2.DESCRIPTOR)
    assert sorted(line for file in files for line in members(file)) == contract


def members(file: FileDescriptor) -> Iterator[str]:
    """What a file promises, as `wire.txt` writes it."""
    for enum in file.enum_types_by_name.values():
        yield from (f"{enum.full_name} {value.number} {value.name}" for value in enum.values)
    for service in file.services_by_name.values():
        for method in service.methods:
            takes = f"{'stream ' * method.client_streaming}{method.input_type.full_name}"
            yield f"{service.full_name} {method.name} ({takes}) {'stream ' * method.server_streaming}{method.output_type.full_name}"
    for message in file.message_types_by_name.values():
        yield from (f"{message.full_name} {field.number} {field.name} {type_of(field)}" for field in message.fields)
        if not message.fields:
            yield f"{message.full_name} empty"


def type_of(field: FieldDescriptor) -> str:
    if (inner := field.message_type) is not None and inner.GetOptions().map_entry:
        return "map<string,string>"
    named = field.message_type or field.enum_type
    plain = named.full_name if named is not None else SCALARS[field.type]
    within = f" in {field.containing_oneof.name}" if field.containing_oneof is not None else ""
    return f"{'repeated ' * field.is_repeated}{plain}{within}"


SCALARS = {
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
}
