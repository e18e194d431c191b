#!/usr/bin/env python3
# Plays a vendor's client for the bench, so that nothing of a real one is measured. At a task it answers each prompt with the time at which
# the prompt reached its input, in nanoseconds; on a terminal it shows every key that it gets.
import json, os, sys, time, tty


def say(**frame):
    print(json.dumps(frame), flush=True)


def work():
    sys.stdin.readline()
    is_new = True
    while line := sys.stdin.readline():
        at = time.time_ns()
        prompt = json.loads(line)
        if prompt.get("type") != "user":
            continue
        if is_new:
            say(type="system", subtype="init", session_id="01234567-89ab-cdef-0123-456789abcdef")
            is_new = False
        # A client that is told to replays what it heard; until then its answers are to something else.
        say(**prompt, isReplay=True)
        say(type="result", subtype="success", is_error=False, result=str(at), total_cost_usd=0, usage={"input_tokens": 0, "output_tokens": 0})


def talk():
    tty.setraw(0)
    os.write(1, b"ready")
    while (key := os.read(0, 64)) not in (b"", b"q"):
        os.write(1, key)


if "--version" in sys.argv:
    print("2.1.197 (Claude Code)")
elif "stream-json" in sys.argv:
    work()
else:
    talk()
