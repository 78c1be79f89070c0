"""The settings of a connector that runs a pipeline, and the pipeline that they mean; read without Spark.

Every worker imports this when it starts, so what reads YAML is imported when there is some.
"""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import non_empty
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import prefixed

if TYPE_CHECKING:
    from pkafka.pipeline.definition import Pipeline
    from pkafka.pipeline.definition_yaml import PipelineError, Problem

FILE: Final = "pipeline.file"
YAML: Final = "pipeline.yaml"
MASTER: Final = "pipeline.master"
_SET: Final = "pipeline.set."

CONFIG: Final = (
    ConfigDef()
    .define(FILE, ConfigType.STRING, None, non_empty, Importance.HIGH,
            "The file that defines the pipeline, on every worker. ${env:NAME} in it is a variable of the worker's "
            "environment.")
    .define(YAML, ConfigType.STRING, None, non_empty, Importance.HIGH,
            "The definition itself, in the place of a file. It has no variables of the environment.")
    .define(MASTER, ConfigType.STRING, "local[*]", non_empty, Importance.LOW,
            "Where Spark works: local[n], with n threads of the worker's machine, or the address of a cluster of "
            "Spark's. It is the same for all pipelines of a worker.")
)  # fmt: skip
"""Beside these, ``pipeline.set.NAME`` is the value of the parameter NAME."""


class PipelineSettings(NamedTuple):
    """What a configuration says.

    Args:
        name: of the connector; that of a pipeline which has none, and stands in no file.
        file: of the definition; None: it is ``yaml``.
        master: of Spark's.
        values: of parameters.
    """

    name: str
    file: str | None
    yaml: str | None
    master: str
    values: Mapping[str, str]

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Self:
        """Read a configuration.

        Raises:
            ConfigError: a setting is refused.
            ConnectError: there is no definition, or there are two.
        """
        parsed = CONFIG.parse(configs)
        file, yaml = parsed[FILE], parsed[YAML]
        if (file is None) == (yaml is None):
            raise ConnectError(f"Either {FILE} or {YAML} defines the pipeline: one of the two is needed.")
        return cls(configs.get("name", "pipeline"), file, yaml, parsed[MASTER], prefixed(configs, _SET))

    @property
    def key(self) -> str:
        """The setting that has the definition."""
        return YAML if self.file is None else FILE

    @property
    def where(self) -> str:
        """What errors call the definition."""
        return YAML if self.file is None else self.file

    def pipeline(self) -> "Pipeline":
        """The pipeline, which is a stream.

        Raises:
            ConnectError: it cannot be read, or is no stream; tells everything that is wrong with it.
        """
        from pkafka.pipeline.definition import parse
        from pkafka.pipeline.definition_yaml import PipelineError, Problem

        try:
            found = parse(
                self._text(),
                name=self.name if self.file is None else Path(self.file).stem,
                values=self.values,
                # What a file of the worker's machine may see, who calls the REST API may not.
                environment={} if self.file is None else os.environ,
            )
            if not found.is_stream:
                # A worker starts tasks again as it likes, and would do the whole batch again each time.
                raise PipelineError(
                    Problem(None, "a connector runs streams (mode: stream): pk-pipeline run runs a batch")
                )
        except PipelineError as error:
            raise ConnectError(told(error, self.where)) from error
        return found

    def _text(self) -> str:
        if self.file is None:
            return self.yaml or ""
        try:
            return Path(self.file).read_text(encoding="utf-8")
        except OSError as error:
            raise ConnectError(f"{self.file} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConnectError(f"{self.file}: it is no text of UTF-8") from error


def told(error: "PipelineError", where: str) -> str:
    """What is wrong with a definition, a line for each."""
    return "\n".join(_line(each, where) for each in error.problems)


def _line(problem: "Problem", where: str) -> str:
    place = where if problem.line is None else f"{where}, line {problem.line}"
    close = [] if problem.word is None else get_close_matches(problem.word, problem.known, 1)
    meant = f" (did you mean {close[0]}?)" if close and close[0] != problem.word else ""
    return f"{place}: {problem.message}{meant}"
