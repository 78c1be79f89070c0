"""Plays the recorded session of REST calls at a worker of Kafka Connect, and compares what two workers answer."""

import re
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from tests.connect_workers import Answer, ConnectWorker
from tests.differences import differences
from tests.interop.connect_session import DIFFERS, SESSION, Step
from tests.talk import talking, wait_for

_MOMENTARY: Final = re.compile("momentarily|worker rebalance")


def played(worker: ConnectWorker, topic: str, bootstrap: str) -> list[tuple[int, Any]]:
    """The session at one worker: statuses and bodies, in which what is this worker's own has a common name."""
    values = {"DIR": str(worker.directory), "TOPIC": topic, "NAME": topic}
    (worker.directory / "in.txt").write_text("a\nb\nc\n")
    with talking(bootstrap) as talk:
        talk.create(topic)
    answers = []
    for step in SESSION:
        answer = _answered(worker, step, values)
        answers.append((answer.status, _generalised(answer.body, worker, values)))
        if step.until is not None:
            connector, state, *tasks = step.until
            worker.rest.wait_until(_filled(connector, values), state, *tasks)
        if step.then is not None:
            path, wanted = _filled(step.then[0], values), _filled(step.then[1], values)
            wait_for(partial(_answers, worker, path, wanted), timeout_s=60)
    return answers


def _answered(worker: ConnectWorker, step: Step, values: Mapping[str, str]) -> Answer:
    """What a worker answers to a step; a refusal for the moment, while the group comes together, is no answer."""
    path, body = _filled(step.path, values), _filled(step.body, values)
    answers: list[Answer] = []

    def is_settled() -> bool:
        answer = worker.rest.call(step.method, path, body, raw=step.raw, media_type=step.media_type)
        answers.append(answer)
        return answer.status != HTTPStatus.CONFLICT or not _MOMENTARY.search(str(answer.body))

    wait_for(is_settled, timeout_s=60)
    return answers[-1]


def _answers(worker: ConnectWorker, path: str, wanted: Any) -> bool:
    found = worker.rest.call("GET", path).body
    return all(found.get(name) == value for name, value in wanted.items())


def _filled(what: Any, values: Mapping[str, str]) -> Any:
    if isinstance(what, str):
        return re.sub(r"<([A-Z]+)>", lambda match: values[match[1]], what)
    if isinstance(what, dict):
        return {_filled(key, values): _filled(value, values) for key, value in what.items()}
    if isinstance(what, list):
        return [_filled(each, values) for each in what]
    return what


def _generalised(what: Any, worker: ConnectWorker, values: Mapping[str, str]) -> Any:
    if isinstance(what, str):
        text = what.replace(f":{worker.port}", ":PORT")
        for name, value in values.items():
            text = text.replace(value, f"<{name}>")
        # Traces differ below their first lines.
        return text.partition("\n\tat ")[0].partition("\n")[0] if "\n\tat " in text else text
    if isinstance(what, dict):
        return {
            _generalised(key, worker, values): _generalised(value, worker, values)
            for key, value in what.items()
        }
    if isinstance(what, list):
        found = [_generalised(each, worker, values) for each in what]
        return sorted(found) if all(isinstance(each, str) for each in found) else found
    return what


def step_differences(step: Step, one: tuple[int, Any], other: tuple[int, Any]) -> list[str]:
    if (step.method, step.path, step.note) in DIFFERS:
        return []
    if one[0] != other[0]:
        return [f"{one} != {other}"]
    if step.status_only:
        return []
    return list(differences(step.shown(one[1]), step.shown(other[1])))
