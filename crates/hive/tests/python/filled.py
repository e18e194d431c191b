"""Messages of the contract with every field set, made from what protoc's own Python plugin knows of them.

Both sides of a test make the same message by its name: a field that one of them does not know is then missing somewhere.
"""

import sys

import agent_pb2
import core_pb2
from google.protobuf.descriptor import FieldDescriptor as Field

INTEGERS = {
    Field.TYPE_UINT64: lambda seed: 2**64 - seed,
    Field.TYPE_INT64: lambda seed: -(2**63) + seed,
    Field.TYPE_UINT32: lambda seed: 2**32 - seed,
    Field.TYPE_INT32: lambda seed: -(2**31) + seed,
}


def scalar(field, seed):
    if field.type in INTEGERS:
        return INTEGERS[field.type](seed)
    if field.type == Field.TYPE_STRING:
        return f"{field.name} {seed} ä"
    if field.type == Field.TYPE_BYTES:
        return bytes([0, 255, seed % 256]) + field.name.encode()
    if field.type == Field.TYPE_BOOL:
        return True
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return seed + 0.5
    if field.type == Field.TYPE_ENUM:
        return field.enum_type.values[-1].number
    raise TypeError(f"{field.full_name}: no value for type {field.type}")


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def fill(message, choice=0):
    """Sets every field; of each oneof the field number `choice`."""
    chosen = {oneof.name: oneof.fields[choice % len(oneof.fields)].name for oneof in message.DESCRIPTOR.oneofs}
    for field in message.DESCRIPTOR.fields:
        seed = field.number
        if field.containing_oneof and chosen[field.containing_oneof.name] != field.name:
            continue
        value = getattr(message, field.name)
        if is_map(field):
            value[f"{field.name} key"] = "value"
            value["ö"] = f"{seed}"
        elif field.is_repeated and field.message_type:
            for again in range(2):
                fill(value.add(), again)
        elif field.is_repeated:
            value.extend([scalar(field, seed), scalar(field, seed + 1)])
        elif field.message_type:
            value.SetInParent()
            fill(value, choice)
        else:
            setattr(message, field.name, scalar(field, seed))
    return message


def choices(kind):
    """One filled message for each way to choose."""
    most = max([len(oneof.fields) for oneof in kind.DESCRIPTOR.oneofs], default=1)
    return [fill(kind(), choice) for choice in range(most)]


def all_fields_set(message):
    """A control: nothing that fill() should have set is still zero."""
    missing = [field.full_name for field in message.DESCRIPTOR.fields if not field.containing_oneof and not set_in(message, field)]
    return not missing or sys.exit(f"not filled: {missing}")


def set_in(message, field):
    return any(field.number == other.number for other, _ in message.ListFields())


def main():
    """Prints each message of the agent's package: its name, which choice, and its bytes."""
    for name, descriptor in sorted(agent_pb2.DESCRIPTOR.message_types_by_name.items()):
        for choice, message in enumerate(choices(getattr(agent_pb2, name))):
            all_fields_set(message)
            print(name, choice, message.SerializeToString(deterministic=True).hex())


if __name__ == "__main__":
    main()
    assert core_pb2.DESCRIPTOR.package == "hivekernel.core"
