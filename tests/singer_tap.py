"""A Singer tap for tests: it counts numbers, goes on behind the one that its state names, and misbehaves when told to.

Its settings: ``upto`` (the last number), ``every`` (a STATE after so many), ``then`` (what it does at its end).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def read(path: str) -> Any:
    with open(path) as file:
        return json.load(file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--state")
    parser.add_argument("--catalog")
    arguments = parser.parse_args()
    config = read(arguments.config)
    state = read(arguments.state) if arguments.state else {}
    print(f"counting on behind {state.get('number', 0)}", file=sys.stderr, flush=True)
    stream = "numbers"
    if arguments.catalog:
        stream = read(arguments.catalog)["streams"][0]["tap_stream_id"]
    properties = {"number": {"type": "integer"}, "note": {"type": ["null", "string"]}}
    say(
        type="SCHEMA",
        stream=stream,
        schema={"type": "object", "properties": properties},
        key_properties=["number"],
    )
    last = state.get("number", 0)
    now = datetime.now(UTC).isoformat()  # a topic would not keep records of long ago
    for number in range(last + 1, config["upto"] + 1):
        record = {"number": number, "note": f"no {number}"}
        say(type="RECORD", stream=stream, record=record, time_extracted=now)
        if number % config.get("every", 1) == 0:
            say(type="STATE", value={"number": number})
    then(config.get("then", "end"), config)


def then(what: str, config: dict[str, Any]) -> None:
    if what == "fail":
        sys.exit("the source is on fire")
    elif what == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "babble":
        print("Traceback (most recent call last):", flush=True)
        time.sleep(3600)
    elif what in ("wait", "hang"):
        if what == "hang":  # it does not end when asked to, nor does its child
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        with open(config["pids"], "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        time.sleep(3600)
    elif what == "leave":
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(3600) # {config['mark']}"])


if __name__ == "__main__":
    main()
