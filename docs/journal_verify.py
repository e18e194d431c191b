"""Checks the hash chain of exported journal lines (docs/journal.md): python3 journal_verify.py [FILE]"""
import hashlib, json, sys

head, count = None, 0
with open(sys.argv[1], "rb") if len(sys.argv) > 1 else sys.stdin.buffer as lines:
    for line in lines:
        line = line.rstrip(b"\n")
        record = json.loads(line)
        if record["seq"] != count or record.get("hash_prev") != head:
            sys.exit(f"broken at record {count}")
        head, count = hashlib.sha256(line).hexdigest(), count + 1
print(f"{count} records, head {head}")
