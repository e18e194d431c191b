#!/usr/bin/env python3
import json, os, subprocess, sys, urllib.request
TURNS = json.loads(TURNS_AS_JSON)
SERIES = "01234567-89ab-cdef-0123-456789abcdef"
# A client that left something running is ended and started again: which turn comes next is kept in its home.
PLACE = os.path.join(os.environ["HOME"], "turn")
number = 0

def next_turn():
    turn = int(open(PLACE).read()) if os.path.exists(PLACE) else 0
    with open(PLACE, "w") as file:
        file.write(str(turn + 1))
    return TURNS[turn] if turn < len(TURNS) else []

def say(**frame):
    print(json.dumps(frame), flush=True)

def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else None

def ask(tool, given, act):
    global number
    number += 1
    name = f"use-{number}"
    say(type="control_request", request_id=name, request={"subtype": "hook_callback", "callback_id": "skep", "tool_use_id": name,
        "input": {"tool_name": tool, "tool_input": given}})
    allowed = hear()["response"]["response"]["hookSpecificOutput"]["permissionDecision"] == "allow"
    if allowed:
        act()
    say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": name, "is_error": not allowed, "content": "done"}]})

def write(path, text):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)

def mcp(tool, given):
    config = json.loads(sys.argv[sys.argv.index("--mcp-config") + 1])
    url = next(iter(config["mcpServers"].values()))["url"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool.replace(".", "_"), "arguments": given}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()

def do(tool, given):
    if tool == "fs.write":
        ask("Write", {"file_path": os.path.join(os.getcwd(), given["path"]), "content": given["content"]}, lambda: write(given["path"], given["content"]))
    elif tool == "shell.run":
        ask("Bash", {"command": given["command"][2]}, lambda: subprocess.run(given["command"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    else:
        mcp(tool, given)

hear()
say(type="control_response", response={"subtype": "success", "request_id": "initialize", "response": {}})
while True:
    heard = hear()
    if heard is None:
        break
    if heard.get("type") != "user":
        say(type="control_response", response={"subtype": "success", "request_id": heard.get("request_id"), "response": {}})
        continue
    say(type="system", subtype="init", session_id=SERIES)
    say(**heard, isReplay=True)
    for act in next_turn():
        do(act["tool"], act["input"])
    say(type="result", subtype="success", is_error=False, result="it is done", session_id=SERIES)
