"""``/connectors``: what runs, and what is done with it (``ConnectorsResource``)."""

from collections.abc import Mapping
from typing import Final, Protocol

from pkafka.connect.connector_checks import Created
from pkafka.connect.connector_config import Validated
from pkafka.connect.connector_offsets import Offsets, read_offsets
from pkafka.connect.errors import ConnectError
from pkafka.connect.rest.calls import EMPTY, Answer, Call, Handler, same_name, texts
from pkafka.connect.rest_errors import RestError
from pkafka.connect.states import INITIAL_STATES, Target
from pkafka.java.text import trim

_NO_CONTENT: Final = Answer(204, EMPTY)
_ACCEPTED: Final = Answer(202, EMPTY)
_OF_A_NEW_ONE: Final = ("name", "config", "initial_state")


class Herder(Protocol):
    """Does what is asked; see :class:`~pkafka.connect.standalone.StandaloneHerder`."""

    def connectors(self) -> list[str]: ...
    def info(self, name: str) -> dict[str, object]: ...
    def configs(self, name: str) -> dict[str, str]: ...
    def tasks(self, name: str) -> list[dict[str, str]]: ...
    def task_configs(self, name: str) -> list[dict[str, str]]: ...
    def status(self, name: str) -> dict[str, object]: ...
    def task_status(self, name: str, number: int) -> dict[str, object]: ...
    def topics(self, name: str) -> list[str]: ...
    def reset_topics(self, name: str) -> None: ...
    def validate(self, configs: Mapping[str, str]) -> Validated: ...
    def put(
        self, name: str, configs: Mapping[str, str], *, allow_replace: bool, target: Target | None = None
    ) -> Created: ...
    def patch(self, name: str, changes: Mapping[str, str | None]) -> dict[str, object]: ...
    def delete(self, name: str) -> None: ...
    def aim(self, name: str, target: Target) -> None: ...
    def restart_connector(self, name: str) -> None: ...
    def restart_task(self, name: str, number: int) -> None: ...
    def restart(self, name: str, *, only_failed: bool, include_tasks: bool) -> dict[str, object]: ...
    def offsets(self, name: str) -> dict[str, object]: ...
    def alter_offsets(self, name: str, offsets: Offsets | None) -> dict[str, object]: ...


class Connectors:
    """Answers requests about connectors.

    Args:
        herder: does what they ask for.
        url: by which answers name this worker.
        tracks_topics: ``topic.tracking.enable``.
        resets_topics: ``topic.tracking.allow.reset``.
    """

    def __init__(self, herder: Herder, url: str, *, tracks_topics: bool, resets_topics: bool) -> None:
        self._herder = herder
        self._url = url
        self._tracks_topics = tracks_topics
        self._resets_topics = resets_topics

    def routes(self) -> dict[tuple[str, str], Handler]:
        """By method and path, what answers."""
        one = "/connectors/{connector}"
        return {
            ("GET", "/connectors"): self._list,
            ("POST", "/connectors"): self._create,
            ("GET", one): lambda call: Answer(body=self._herder.info(call.name())),
            ("DELETE", one): self._delete,
            ("GET", f"{one}/config"): lambda call: Answer(body=self._herder.configs(call.name())),
            ("PUT", f"{one}/config"): self._put,
            ("PATCH", f"{one}/config"): self._patch,
            ("GET", f"{one}/status"): lambda call: Answer(body=self._herder.status(call.name())),
            ("GET", f"{one}/tasks"): self._tasks,
            ("POST", f"{one}/tasks"): self._not_here("externally setting task configurations"),
            ("GET", f"{one}/tasks-config"): self._task_configs,
            ("PUT", f"{one}/fence"): self._not_here("exactly-once source connectors"),
            ("GET", f"{one}/tasks/{{task}}/status"): self._task_status,
            ("POST", f"{one}/tasks/{{task}}/restart"): self._restart_task,
            ("POST", f"{one}/restart"): self._restart,
            ("PUT", f"{one}/pause"): self._aim(Target.PAUSED, _ACCEPTED),
            ("PUT", f"{one}/resume"): self._aim(Target.STARTED, _ACCEPTED),
            ("PUT", f"{one}/stop"): self._aim(Target.STOPPED, _NO_CONTENT),
            ("GET", f"{one}/topics"): self._topics,
            ("PUT", f"{one}/topics/reset"): self._reset_topics,
            ("GET", f"{one}/offsets"): lambda call: Answer(body=self._herder.offsets(call.name())),
            ("PATCH", f"{one}/offsets"): self._alter_offsets,
            ("DELETE", f"{one}/offsets"): self._reset_offsets,
        }

    def _list(self, call: Call) -> Answer:
        expand = [each for each in call.all("expand") if each in ("status", "info")]
        if not call.all("expand"):
            return Answer(body=self._herder.connectors())
        found: dict[str, object] = {}
        for name in self._herder.connectors():
            try:
                shown: dict[str, object] = {}
                if "status" in expand:
                    shown["status"] = self._herder.status(name)
                if "info" in expand:
                    shown["info"] = self._herder.info(name)
            except RestError:
                continue  # it went meanwhile
            if expand:
                found[name] = shown
        return Answer(body=found)

    def _create(self, call: Call) -> Answer:
        asked = call.fields("a connector")
        unknown = next((name for name in asked if name not in _OF_A_NEW_ONE), None)
        if unknown is not None:
            raise ConnectError(
                f'Unrecognized field "{unknown}"; a new connector has the fields name, config and initial_state'
            )
        target = _target(asked.get("initial_state"))
        configs = texts(call.configs(asked.get("config") or {}))
        given = asked.get("name")
        if given is not None and not isinstance(given, str):
            raise ConnectError("The name of a connector has to be a text")
        name = trim(configs.get("name", "") if given is None else given)
        same_name(name, configs)
        return self._created(name, self._herder.put(name, configs, allow_replace=False, target=target).info)

    def _put(self, call: Call) -> Answer:
        name = call.name()
        configs = same_name(name, texts(call.configs()))
        created = self._herder.put(name, configs, allow_replace=True)
        return self._created(name, created.info) if created.is_new else Answer(body=created.info)

    def _patch(self, call: Call) -> Answer:
        return Answer(body=self._herder.patch(call.name(), call.configs()))

    def _created(self, name: str, info: dict[str, object]) -> Answer:
        return Answer(201, info, {"Location": f"{self._url}/connectors/{name}"})

    def _delete(self, call: Call) -> Answer:
        self._herder.delete(call.name())
        return _NO_CONTENT

    def _aim(self, target: Target, answer: Answer) -> Handler:
        def act(call: Call) -> Answer:
            self._herder.aim(call.name(), target)
            return answer

        return act

    # -- tasks --

    def _tasks(self, call: Call) -> Answer:
        name = call.name()
        rows = [
            {"id": {"connector": name, "task": number}, "config": configs}
            for number, configs in enumerate(self._herder.tasks(name))
        ]
        return Answer(body=rows)

    def _task_configs(self, call: Call) -> Answer:
        name = call.name()
        return Answer(
            body={f"{name}-{number}": each for number, each in enumerate(self._herder.task_configs(name))}
        )

    def _task_status(self, call: Call) -> Answer:
        return Answer(body=self._herder.task_status(call.name(), call.number()))

    def _restart_task(self, call: Call) -> Answer:
        self._herder.restart_task(call.name(), call.number())
        return _NO_CONTENT

    def _restart(self, call: Call) -> Answer:
        include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
        if not include_tasks and not only_failed:
            self._herder.restart_connector(call.name())
            return _NO_CONTENT
        return Answer(
            202, self._herder.restart(call.name(), only_failed=only_failed, include_tasks=include_tasks)
        )

    def _not_here(self, what: str) -> Handler:
        def refuse(_call: Call) -> Answer:
            raise ConnectError(f"Kafka Connect in standalone mode does not support {what}.")

        return refuse

    # -- topics and offsets --

    def _topics(self, call: Call) -> Answer:
        if not self._tracks_topics:
            raise RestError(403, "Topic tracking is disabled.")
        return Answer(body={call.name(): {"topics": self._herder.topics(call.name())}})

    def _reset_topics(self, call: Call) -> Answer:
        if not self._tracks_topics:
            raise RestError(403, "Topic tracking is disabled.")
        if not self._resets_topics:
            raise RestError(403, "Topic tracking reset is disabled.")
        self._herder.reset_topics(call.name())
        return _ACCEPTED

    def _alter_offsets(self, call: Call) -> Answer:
        return Answer(body=self._herder.alter_offsets(call.name(), read_offsets(call.document())))

    def _reset_offsets(self, call: Call) -> Answer:
        return Answer(body=self._herder.alter_offsets(call.name(), None))


def _target(given: object) -> Target | None:
    if given is None:
        return None
    target = INITIAL_STATES.get(given.upper()) if isinstance(given, str) else None
    if target is None:
        raise ConnectError(f"There is no initial_state {given!r}; there are {', '.join(INITIAL_STATES)}")
    return target
