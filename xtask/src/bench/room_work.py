"""Everyday work in a project, for `cargo xtask bench rooms`: prints how long it took by the clock and by processors, in ms, as JSON.

Started in the same way outside, in a room and in bwrap: `room_work.py WORK ROUND`. Work that is done more than once is "first", then "next".
"""

import json
import os
import resource
import subprocess
import sys
import time


def measured(work):
    """Milliseconds by the clock, and of processor time with all children's."""

    def spent():
        both = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    began, used = time.perf_counter(), spent()
    work()
    return [(time.perf_counter() - began) * 1000, (spent() - used) * 1000]


def run(*command):
    # grep finds nothing, and says so with 1; with 2 in a room, where it may not read the masked file.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode > (2 if command[0] == "grep" else 0):
        sys.exit(f"{command}: {done.stderr.decode()}")


def status():
    run("git", "-c", "safe.directory=*", "status", "--porcelain")


def grep():
    run("grep", "-r", "no such words", ".")


def compile_c():
    run("gcc", "-O1", "-c", "unit.c", "-o", f"unit-{ROUND}.o")


def python():
    for _ in range(20):
        run(sys.executable, "-c", "import json, re")


def create():
    folder = f"made-{ROUND}"
    os.mkdir(folder)
    for number in range(2000):
        with open(f"{folder}/{number}", "w") as file:
            file.write("a few bytes\n")


def again(work):
    times = sorted(measured(work) for _ in range(5))
    return times[len(times) // 2]


WORK, ROUND = sys.argv[1:]
if WORK in ("status", "grep"):
    work = {"status": status, "grep": grep}[WORK]
    print(json.dumps({"first": measured(work), "next": again(work)}))
else:
    print(json.dumps({"next": measured({"compile": compile_c, "python": python, "create": create}[WORK])}))
