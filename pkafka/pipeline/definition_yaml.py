"""YAML that remembers its lines: reads a file key by key, and collects all that is wrong with it, each with its line.

Text may hold ``${name}``, a parameter of the pipeline's, and ``${env:NAME}``, a variable of the environment;
``$${`` stands for ``${``.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import yaml

from pkafka.errors import PkafkaError

_PLACE: Final = re.compile(r"\$(\$\{)|\$\{([^}]*)\}")
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_NULL_TAG: Final = "tag:yaml.org,2002:null"
_INT_TAG: Final = "tag:yaml.org,2002:int"


class Problem(NamedTuple):
    """Something wrong with a definition.

    Args:
        line: of the file, from 1; None where it is no line's fault.
        message: what is wrong, in one line.
        word, known: a name that there is not, and those that there are.
    """

    line: int | None
    message: str
    word: str | None = None
    known: tuple[str, ...] = ()


class PipelineError(PkafkaError):
    """A pipeline cannot run as it is defined.

    Args:
        problems: what is wrong with it, at least one, in the order of the file.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(each.message for each in problems))
        self.problems = problems


def line_of(node: yaml.Node) -> int:
    """Where a value begins, from 1; of a text block, its first line of text."""
    is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return int(node.start_mark.line) + (2 if is_block else 1)


def _repeated_in_itself(node: yaml.Node) -> yaml.Node | None:
    """A value that contains itself by an alias, where there is one: reading it would never end."""
    around: set[int] = set()
    done: set[int] = set()

    def find(node: yaml.Node) -> yaml.Node | None:
        if id(node) in around:
            return node
        if id(node) in done or isinstance(node, yaml.ScalarNode):
            return None
        around.add(id(node))
        pairs = isinstance(node, yaml.MappingNode)
        inner = [each for pair in node.value for each in pair] if pairs else node.value
        found = next((again for each in inner if (again := find(each)) is not None), None)
        around.discard(id(node))
        done.add(id(node))
        return found

    return find(node)


class Reader:
    """Reads values out of YAML and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.resolve: Callable[[str, int], str] = lambda name, _line: name
        """Gives the text in the place of ``${name}`` on a line; it tells a problem where there is none."""
        self._loader: yaml.SafeLoader | None = None

    def document(self, text: str) -> yaml.Node:
        """The value that a file is.

        Raises:
            PipelineError: it is no YAML, or holds nothing.
        """
        try:
            self._loader = yaml.SafeLoader(text)
            node = self._loader.get_single_node()
            again = None if node is None else _repeated_in_itself(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            raise PipelineError(Problem(mark.line + 1 if mark else None, str(error.problem))) from error
        except yaml.YAMLError as error:
            raise PipelineError(Problem(None, " ".join(str(error).split()))) from error
        except RecursionError as error:
            raise PipelineError(Problem(None, "it is nested too deeply")) from error
        if node is None:
            raise PipelineError(Problem(None, "there is nothing in it"))
        assert isinstance(node, yaml.Node)
        if again is not None:
            raise PipelineError(Problem(line_of(again), "a value is part of itself"))
        return node

    def tell(
        self, node: yaml.Node | int | None, message: str, word: str | None = None, known: Collection[str] = ()
    ) -> None:
        """Something is wrong at a value, or at a line."""
        line = line_of(node) if isinstance(node, yaml.Node) else node
        self.problems.append(Problem(line, message, word, tuple(known)))

    def mapping(
        self, node: yaml.Node, where: str, known: Collection[str] | None = None
    ) -> dict[str, yaml.Node]:
        """The values of a mapping, by name.

        Args:
            where: what messages call it.
            known: the names that it may have; None: any.
        """
        if not isinstance(node, yaml.MappingNode):
            self.tell(node, f"{where} needs keys and values")
            return {}
        assert self._loader is not None
        given = [key for key, _ in node.value if key.tag != _MERGE_TAG]
        try:
            self._loader.flatten_mapping(node)  # << brings the values of another mapping, before its own
        except yaml.MarkedYAMLError as error:
            self.tell(node, str(error.problem))
            return {}
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None:
                self.tell(key, f"a key of {where} is no text")
            elif known is not None and name not in known:
                self.tell(key, f"there is no key {name} of {where}", name, known)
            else:
                found[name] = value
        seen = set()
        for key in given:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                self.tell(key, f"{where} has the key {key.value} more than once")
            elif isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return found

    def sequence(self, node: yaml.Node, where: str) -> list[yaml.Node]:
        """The values of a list."""
        if not isinstance(node, yaml.SequenceNode):
            self.tell(node, f"{where} needs a list")
            return []
        return list(node.value)

    def text(self, node: yaml.Node | None, where: str) -> str | None:
        """A value as text, with parameters filled in; None where it is missing or wrong."""
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL_TAG:
            self.tell(node, f"{where} needs a value")
            return None
        return self._filled(node.value, line_of(node))

    def choice(self, node: yaml.Node | None, where: str, allowed: Collection[str]) -> str | None:
        """One of some words."""
        text = self.text(node, where)
        if text is not None and text not in allowed:
            self.tell(node, f"{where} is {' or '.join(allowed)}, not {text}", text, allowed)
            return None
        return text

    def flag(self, node: yaml.Node | None, where: str) -> bool:
        """True or false; false where it is missing."""
        return self.choice(node, where, ("true", "false")) == "true"

    def texts(self, node: yaml.Node | None, where: str) -> tuple[str, ...]:
        """A list of texts, or one alone."""
        if node is None:
            return ()
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return tuple(text for each in nodes if (text := self.text(each, where)) is not None)

    def option(self, node: yaml.Node, where: str) -> str | None:
        """A value of an option of Spark's, which are all texts: lists have commas, mappings are JSON."""
        if isinstance(node, yaml.SequenceNode):
            return ",".join(self.texts(node, where))
        if isinstance(node, yaml.MappingNode):
            return json.dumps(self._plain(node, where))
        return self.text(node, where)

    def _plain(self, node: yaml.Node, where: str) -> object:
        if isinstance(node, yaml.MappingNode):
            return {key: self._plain(value, where) for key, value in self.mapping(node, where).items()}
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(each, where) for each in node.value]
        if isinstance(node, yaml.ScalarNode) and node.tag == _INT_TAG:
            assert self._loader is not None
            try:
                return self._loader.construct_yaml_int(node)
            except (ValueError, IndexError):  # as of !!int x
                self.tell(node, f"{where} has a number that is none")
                return None
        return self.text(node, where)

    def _filled(self, text: str, line: int) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] is not None:
                return found[1]
            return self.resolve(found[2], line)

        return _PLACE.sub(value, text)


def parameters_of(reader: Reader, node: yaml.Node | None) -> Mapping[str, str | None]:
    """The parameters of a definition, each with its default; None where a value has to be given."""
    found: dict[str, str | None] = {}
    for name, value in (reader.mapping(node, "parameters") if node is not None else {}).items():
        if not isinstance(value, yaml.ScalarNode):
            reader.tell(value, f"the parameter {name} is a text or a number")
        else:
            found[name] = None if value.tag == _NULL_TAG else value.value
    return found
