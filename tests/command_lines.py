"""Command lines of every pk-* command, as its parameters say they can be and as they must not be.

A word is drawn for the kind of value that a parameter takes (its type, its metavar, its name); one or two of a line are
odd: empty, huge, no number, not of this alphabet, bytes that are no text, files that are missing, damaged or no files.
"""

import importlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import click
from hypothesis import strategies as st

from pkafka.cli.kit.kafka_command import KafkaCommand
from pkafka.clients.config import ConsumerConfig, ProducerConfig
from pkafka.server.config.keys import topic_keys
from pkafka.tools.secret_keys import is_secret
from tests.in_process import UNREADABLE
from tests.log_files import SegmentFile
from tests.odd_values import (
    GROUPS,
    PROPERTIES_TEXTS,
    TOPICS,
    changed_somewhere,
    damaged,
    json_values,
    odd_numbers,
    odd_servers,
    odd_texts,
    odd_times,
    odd_values,
    stdins,
    yaml_texts,
)
from tests.unit.tools.load.perf_test.reports import report

_PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
SECRET: Final = "s3cr3t-Of-Nobodys-Business"


class Leaf(NamedTuple):
    """A command, or a verb of one, with the words that lead to it."""

    main: click.Command
    words: tuple[str, ...]
    command: click.Command

    @property
    def name(self) -> str:
        return " ".join([str(self.main.name), *self.words])


def leaves() -> list[Leaf]:
    """Every command that the project installs, verb by verb."""
    scripts = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    found: list[Leaf] = []
    for target in scripts.values():
        module, _, name = target.partition(":")
        main = getattr(importlib.import_module(module), name)
        found += _below(main, (), main)
    return found


def _below(main: click.Command, words: tuple[str, ...], command: click.Command) -> list[Leaf]:
    if not isinstance(command, click.Group):
        return [Leaf(main, words, command)]
    return [leaf for name, below in command.commands.items() for leaf in _below(main, (*words, name), below)]


class File(NamedTuple):
    """A file that is to exist when the command runs; its path takes the place of this in the command line."""

    before: str
    """What stands before the path in the same word."""
    name: str
    content: bytes


Word: TypeAlias = str | File


class Line(NamedTuple):
    """A command line, what stands on standard input, and variables of the environment."""

    words: Sequence[Word]
    stdin: bytes
    environment: Mapping[str, str]
    files: Mapping[str, bytes]
    """What else is in the folder, which is the home of who types, too."""
    is_endless: bool
    """Whether it is one that goes on until it is told to end."""

    def on_disk(self, folder: Path) -> list[str]:
        """The words, with files put into a folder."""
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        words = []
        for number, word in enumerate(self.words):
            if isinstance(word, File):
                path = folder / f"{number}-{word.name}"
                path.write_bytes(word.content)
                words.append(f"{word.before}{path}")
            else:
                words.append(word)
        return words


_JSON_OF: Final[Mapping[str, Any]] = {
    "offset_json_file": {"version": 1, "partitions": [{"topic": "plain", "partition": 0, "offset": 1}]},
    "path_to_json_file": {
        "partitions": [{"topic": "plain", "partition": 0}, {"topic": "odd", "partition": 0}]
    },
    "topics_to_move_json_file": {"version": 1, "topics": [{"topic": "plain"}, {"topic": "odd"}]},
    "reassignment_json_file": {
        "version": 1,
        "partitions": [
            {"topic": "plain", "partition": 0, "replicas": [1], "log_dirs": ["any"]},
            {"topic": "odd", "partition": 0, "replicas": [1]},
        ],
    },
}
_YAML_OF_APPLY: Final = {
    "version": 1,
    "topics": {
        "plain": {
            "partitions": 2,
            "replication-factor": 1,
            "configs": {"retention.ms": 5, "cleanup.policy": ["delete"]},
        }
    },
    "brokers": {"default": {"log.cleaner.threads": 2}, "1": {}},
}
# -- settings ----------------------------------------------------------------------------------------------

_CLIENT_KEYS: Final = sorted({*ConsumerConfig.defaults(), *ProducerConfig.defaults()})
_SECURITY: Final = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain."
    f'PlainLoginModule required username="u" password="{SECRET}"'
)
_READER_KEYS: Final = (
    *(
        "parse.key",
        "parse.headers",
        "key.separator",
        "headers.delimiter",
        "headers.separator",
        "headers.key.separator",
    ),
    *(
        "ignore.error",
        "null.marker",
        "topic",
        "print.timestamp",
        "print.key",
        "print.offset",
        "print.partition",
    ),
    *(
        "print.headers",
        "print.value",
        "line.separator",
        "null.literal",
        "headers.deserializer",
        "key.deserializer",
    ),
    *("value.deserializer", "enable.print", "schema.registry.url"),
)
_ADDED_KEYS: Final = (
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    *("connection_creation_rate", "SCRAM-SHA-256", "SCRAM-SHA-512", "log.cleaner.threads", "retention.ms"),
    *("cleanup.policy", "kafka.controller", "root", "leader.replication.throttled.replicas"),
)


def _settings_of(keys: Sequence[str]) -> st.SearchStrategy[str]:
    """``key=value``; the value of a secret is one that may not be seen again."""

    def pair(key: str, value: str) -> str:
        return f"{key}={SECRET if is_secret(key) else value}"

    return st.builds(pair, st.sampled_from(keys), odd_values)


def _lines_of_properties(keys: Sequence[str]) -> st.SearchStrategy[bytes]:
    pair = _settings_of(keys).map(lambda text: text.encode("utf-8", "surrogateescape"))
    lines = st.lists(st.one_of(pair, pair, st.sampled_from(PROPERTIES_TEXTS)), max_size=4).map(b"\n".join)
    security = _damaged_security()
    return st.one_of(lines, lines, security)


def _damaged_security() -> st.SearchStrategy[bytes]:
    pieces = [
        "org.apache.kafka.common.security.plain.PlainLoginModule",
        " required",
        ' username="u"',
        f' password="{SECRET}"',
        ";",
    ]

    def put_together(kept: list[bool], mechanism: str, protocol: str, tail: str) -> bytes:
        value = "".join(piece for piece, is_kept in zip(pieces, kept, strict=True) if is_kept)
        return f"security.protocol={protocol}\nsasl.mechanism={mechanism}\nsasl.jaas.config={value}{tail}\n".encode()

    return st.builds(
        put_together,
        st.lists(st.booleans(), min_size=5, max_size=5),
        st.sampled_from(["PLAIN", "SCRAM-SHA-256", "GSSAPI", "OAUTHBEARER", "", "plain"]),
        st.sampled_from(["SASL_PLAINTEXT", "SASL_SSL", "SSL", "", "x"]),
        st.sampled_from(["", ";", '"', " x=y;", "\\"]),
    )


# -- files -------------------------------------------------------------------------------------------------


def _file(name: str, content: st.SearchStrategy[bytes], before: str = "") -> st.SearchStrategy[Word]:
    return content.map(lambda data: File(before, name, data))


_no_files: Final[st.SearchStrategy[Word]] = st.one_of(
    st.sampled_from(
        ["missing", ".", "/", "", UNREADABLE, "/dev/null", "x" * 300, "missing/x", "\udcff", "a\nb", "~", "-"]
    ),
    _file("binary", st.binary(max_size=64)),
    _file("empty", st.just(b"")),
)


def _json_files(name: str) -> st.SearchStrategy[Word]:
    seed = _JSON_OF[name]
    whole = json.dumps(seed).encode()
    changed = changed_somewhere(seed).map(lambda each: json.dumps(each).encode())
    return _file(
        "given.json",
        st.one_of(
            changed,
            changed,
            damaged(whole),
            json_values.map(lambda each: json.dumps(each).encode()),
            st.sampled_from(
                [
                    b"",
                    b"[" * 100_000,
                    b'{"a":' * 50_000,
                    b"NaN",
                    b"\xef\xbb\xbf{}",
                    b"1e999",
                    b'{"version":1,"version":2}',
                ]
            ),
        ),
    )


def _good_file(leaf: Leaf, param: click.Parameter) -> Word:
    name = str(param.name)
    if name in _JSON_OF:
        return File("", "good.json", json.dumps(_JSON_OF[name]).encode())
    if leaf.main.name == "pk-apply":
        return File("", "good.yaml", json.dumps(_YAML_OF_APPLY).encode())
    if name == "from_file":
        return File("", "good.csv", b"plain,0,1\nodd,0,0\n")
    if "payload" in name:
        return File("", "payload.txt", b"one\ntwo\nthree\n")
    return File("", "good.properties", b"client.id=fuzz\n")


def _odd_file(leaf: Leaf, param: click.Parameter) -> st.SearchStrategy[Word]:
    name = str(param.name)
    if name in _JSON_OF:
        return st.one_of(_no_files, _json_files(name), _json_files(name))
    if leaf.main.name == "pk-apply":
        changed = changed_somewhere(_YAML_OF_APPLY).map(lambda each: json.dumps(each).encode())
        return st.one_of(
            _no_files,
            _file("given.yaml", st.one_of(changed, damaged(json.dumps(_YAML_OF_APPLY).encode()), yaml_texts)),
        )
    if name == "from_file":
        rows = st.lists(st.lists(odd_values, max_size=4).map(",".join), max_size=3).map("\n".join)
        text = rows.map(lambda each: each.encode("utf-8", "surrogateescape"))
        return st.one_of(
            _no_files, _file("given.csv", text), _file("given.csv", damaged(b'plain,0,1\n"odd",0,0\n'))
        )
    return st.one_of(_no_files, _file("given.properties", _lines_of_properties(_CLIENT_KEYS)))


# -- lines that make sense ---------------------------------------------------------------------------------

_PIPELINE: Final = {
    "name": "copy",
    "mode": "batch",
    "parameters": {"limit": 1},
    "source": {"format": "json", "path": "in", "schema": "a int"},
    "steps": [{"name": "few", "sql": "select * from source limit ${limit}"}],
    "sink": {"format": "parquet", "path": "out", "mode": "append"},
}
_LOG_FILE_NAME: Final = "00000000000000000000.log"


def _segment() -> bytes:
    made = SegmentFile()
    made.records([(1_000, b"k", b"v", ()), (1_001, None, b"\xff", ())])
    made.records([(1_002, b"", b"{}", ())])
    return bytes(made.data)


_SEED_FILES: Final[Mapping[str, bytes]] = {
    "offsets.json": json.dumps(_JSON_OF["offset_json_file"]).encode(),
    "elect.json": json.dumps(_JSON_OF["path_to_json_file"]).encode(),
    "topics.json": json.dumps(_JSON_OF["topics_to_move_json_file"]).encode(),
    "plan.json": json.dumps(_JSON_OF["reassignment_json_file"]).encode(),
    "wanted.yaml": json.dumps(_YAML_OF_APPLY).encode(),
    "pipeline.yaml": json.dumps(_PIPELINE).encode(),
    "offsets.csv": b"plain,0,1\nodd,0,0\n",
    "client.properties": b"client.id=fuzz\n",
    "sasl.properties": f"{_SECURITY}\n".encode(),
    "added.properties": b"retention.ms=5\ncleanup.policy=compact,delete\n",
    "server.properties": b"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:9\nlog.dirs=data\n",
    "zookeeper.properties": b"clientPort=1\ndataDir=zk\n",
    "payload.txt": b"one\ntwo\n",
    "report.json": json.dumps(report()).encode(),
    _LOG_FILE_NAME: _segment(),
}
"""Files that lines name, by the word that stands for them; their ends say how they can be damaged."""


def _seeds(leaf: Leaf) -> list[list[Word]]:
    """Whole command lines that make sense."""
    texts = [
        text[len(leaf.name) + 1 :].replace("SECRET", SECRET)
        for text in _SENSIBLE.read_text(encoding="utf-8").splitlines()
        if text.startswith(f"{leaf.name} ")
    ]
    actions = leaf.command.actions if isinstance(leaf.command, KafkaCommand) else None
    for example in () if actions is None else actions.examples.values():
        texts.append(_EXAMPLES_NAMES.sub(lambda found: _NAMES_HERE[found[0]], example))
    return [[_seed_word(word) for word in text.split(" ")] for text in texts]


_SENSIBLE: Final = Path(__file__).with_suffix(".txt")
_NAMES_HERE: Final = {"orders": "plain", "billing": "readers", "30s": "100ms", "10m": "100ms", "1m": "100ms"}
_EXAMPLES_NAMES: Final = re.compile(r"\b(" + "|".join(_NAMES_HERE) + r")\b")


def _seed_word(word: str) -> Word:
    return File("", word, _SEED_FILES[word]) if word in _SEED_FILES else word


@st.composite
def _odd_for(draw: st.DrawFn, word: Word) -> Word:
    """Something else in the place of a word that made sense."""
    if isinstance(word, File):
        suffix = word.name.rpartition(".")[2]
        if suffix in ("json", "yaml") and draw(st.integers(0, 3)):
            changed = draw(changed_somewhere(json.loads(word.content)))
            return word._replace(content=json.dumps(changed).encode())
        if suffix == "yaml" and draw(st.booleans()):
            return word._replace(content=draw(yaml_texts))
        if suffix == "properties" and draw(st.booleans()):
            return word._replace(content=draw(_lines_of_properties(_CLIENT_KEYS)))
        return draw(st.one_of(_no_files, damaged(word.content).map(lambda data: word._replace(content=data))))
    key, equals, _ = word.partition("=")
    if equals and draw(st.integers(0, 3)):
        return f"{key}={draw(odd_values)}"
    if word[:1].isalpha() and draw(st.booleans()):
        at = draw(st.integers(0, len(word)))
        return f"{word[:at]}{draw(odd_texts)}{word[at:]}"
    return draw(st.one_of(odd_numbers, odd_times) if word[:1].isdigit() or word[:2] == "-1" else odd_values)


@st.composite
def _near_a_seed(draw: st.DrawFn, leaf: Leaf, seeds: list[list[Word]], servers: str) -> list[Word]:
    words: list[Word] = [
        word.replace("SERVERS", servers) if isinstance(word, str) else word
        for word in draw(st.sampled_from(seeds))
    ]
    values = [at for at, word in enumerate(words) if isinstance(word, File) or not word.startswith("--")]
    flags = [at for at, word in enumerate(words) if isinstance(word, str) and word.startswith("--")]
    what = draw(st.integers(0, 9))
    if what < 7 and values:
        at = draw(st.sampled_from(values))
        words[at] = draw(_odd_for(words[at]))
    elif what == 7 and words:
        del words[draw(st.integers(0, len(words) - 1))]
    elif what == 8 and flags:
        at = draw(st.sampled_from(flags))
        words[at:at] = words[at : at + draw(st.integers(1, 2))]
    options = [
        each
        for each in leaf.command.params
        if isinstance(each, click.Option) and each.name not in ("help", "version", "debug", "show_config")
    ]
    if draw(st.integers(0, 3)) == 0 and options:
        option = draw(st.sampled_from(options))
        words += draw(_written(leaf, option, is_odd=draw(st.booleans()), servers=servers))
    return words


# -- parameters --------------------------------------------------------------------------------------------


def _kind(param: click.Parameter) -> str:
    """What a parameter takes: one word for what its type, metavar and name say."""
    metavar, name = param.metavar or "", param.name or ""
    if isinstance(param, click.Option) and param.is_flag:
        return "flag"
    if isinstance(param.type, click.Choice):
        return "choice"
    if isinstance(param.type, click.types.IntParamType | click.types.FloatParamType) and name != "partition":
        return "number"
    if metavar in ("FILE", "CSV", "REPORT") or isinstance(param.type, click.Path):
        return "file"
    if metavar.startswith("HOST:PORT"):
        return "servers"
    if "=" in metavar:
        return "settings"
    if metavar in ("MS", "DURATION", "TIME", "SECONDS", "[SECONDS]"):
        return "time"
    if metavar in ("N", "ID", "0,1", "0,1,2", "BYTES", "SIZE", "SHARE", "ACKS", "R"):
        return "number"
    if "topic" in name or "REGEX" in metavar or "include" in name:
        return "topic"
    if "group" in name:
        return "group"
    if metavar in ("YYYY-MM-DDTHH:mm:SS.sss", "PnDTnHnMnS", "A:B"):
        return "moment"
    return "text"


def _keys_of(leaf: Leaf, param: click.Parameter) -> Sequence[str]:
    name = str(param.name)
    if name in ("property", "properties", "pairs", "reader_property", "formatter_property"):
        return _READER_KEYS
    if "add" in name:
        return (*_ADDED_KEYS, *topic_keys())
    if name in ("config", "topic_configs"):
        return sorted(topic_keys())
    return _CLIENT_KEYS


_GOOD: Final[Mapping[str, Sequence[str]]] = {
    "number": ("1", "2", "0", "10"),
    "time": ("100", "200ms", "1s"),
    "topic": TOPICS,
    "group": GROUPS,
    "moment": ("2026-01-01T00:00:00.000", "PT1H", "0:5"),
    "text": ("a", "latest", "earliest", "0:1", "topics", "brokers", "1"),
}


def _good(leaf: Leaf, param: click.Parameter, servers: str) -> st.SearchStrategy[Word]:
    kind = _kind(param)
    if kind == "choice":
        assert isinstance(param.type, click.Choice)
        return st.sampled_from([str(each) for each in param.type.choices])
    if kind == "file":
        return st.just(_good_file(leaf, param))
    if kind == "servers":
        return st.just(servers)
    if kind == "settings":
        return st.sampled_from(
            [
                "client.id=a",
                "retention.ms=1000",
                "parse.key=true",
                "print.key=true",
                "a=b",
                "cleanup.policy=compact",
            ]
        )
    metavar = param.metavar or ""
    if "|" in metavar:
        return st.sampled_from([each for each in metavar.split("|") if each] + list(_GOOD.get(kind, ())))
    return st.sampled_from(_GOOD[kind])


def _odd(leaf: Leaf, param: click.Parameter) -> st.SearchStrategy[Word]:
    kind = _kind(param)
    if kind == "choice":
        assert isinstance(param.type, click.Choice)
        return st.one_of(odd_texts, st.sampled_from([str(each).upper() for each in param.type.choices]))
    if kind == "file":
        return _odd_file(leaf, param)
    if kind == "servers":
        return odd_servers
    if kind == "settings":
        return st.one_of(_settings_of(_keys_of(leaf, param)), odd_values)
    if kind == "number":
        return odd_numbers
    if kind in ("time", "moment"):
        return odd_times
    return odd_values


def lines(leaf: Leaf, servers: str) -> st.SearchStrategy[Line]:
    """Command lines of a command, most of them with one or two odd words."""
    arguments = [param for param in leaf.command.params if isinstance(param, click.Argument)]
    options = [
        param
        for param in leaf.command.params
        if isinstance(param, click.Option) and param.name not in ("help", "version", "debug")
    ]
    actions = leaf.command.actions if isinstance(leaf.command, KafkaCommand) else None
    seeds = _seeds(leaf)

    @st.composite
    def line(draw: st.DrawFn) -> Line:
        is_near_a_seed = draw(st.integers(0, 2)) > 0
        if seeds and is_near_a_seed:
            return finished(draw, draw(_near_a_seed(leaf, seeds, servers)))
        words: list[Word] = []
        candidates = options
        if actions is not None and draw(st.integers(0, 9)):
            action = draw(st.sampled_from(sorted(actions.examples)))
            candidates = [each for each in options if actions.has(action, _flag(each)[2:])]
            words.append(f"--{action}")
        required = [each for each in candidates if each.required and draw(st.integers(0, 9))]
        servers_flag = [
            each for each in candidates if _kind(each) == "servers" and draw(st.integers(0, 2)) == 0
        ][:1]
        more = draw(st.lists(st.sampled_from(candidates), max_size=4, unique_by=id)) if candidates else []
        chosen = list({id(each): each for each in (*required, *servers_flag, *more)}.values())
        values: list[click.Parameter] = [
            *chosen,
            *(each for each in arguments if each.required or draw(st.booleans())),
        ]
        takers = [each for each in values if _kind(each) != "flag"]
        odd = draw(st.lists(st.sampled_from(takers), max_size=2, unique_by=id)) if takers else []
        for param in chosen:
            words += draw(_written(leaf, param, is_odd=any(param is each for each in odd), servers=servers))
        for argument in arguments:
            if not any(argument is each for each in values):
                continue
            is_odd = any(argument is each for each in odd)
            one = _odd(leaf, argument) if is_odd else _good(leaf, argument, servers)
            words += [draw(one) for _ in range(draw(st.integers(1, 3)) if argument.nargs == -1 else 1)]
        if not draw(st.integers(0, 9)):
            words.insert(
                draw(st.integers(0, len(words))),
                draw(st.one_of(odd_values, st.sampled_from([_flag(each) for each in options] or ["-x"]))),
            )
        return finished(draw, words)

    def finished(draw: st.DrawFn, words: list[Word]) -> Line:
        for flag, value in _BOUNDS.items():
            if (
                any(flag in option.opts for option in options)
                and not _has(words, flag)
                and draw(st.integers(0, 9))
            ):
                words = [*words, flag, value]
        environment = {"PK_BOOTSTRAP_SERVER": servers, **draw(_environments)}
        # Whoever is found is told nothing: there are servers on this machine that are none of this test's.
        environment["SIGNAL"] = draw(st.sampled_from(["²", "KILLALL", "99"]))
        is_endless = leaf.main.name in _ENDLESS or any(_has(words, flag) for flag in _ENDLESS_FLAGS)
        is_endless |= not all(
            f"{flag}={value}" in words or _in_a_row(words, flag, value)
            for flag, value in _BOUNDS.items()
            if any(flag in option.opts for option in options)
        )
        return Line([*leaf.words, *words], draw(stdins), environment, draw(_surroundings), is_endless)

    return line()


def lines_of_each_flag(leaf: Leaf, servers: str) -> Iterator[Line]:
    """Command lines that make sense but for the value of one flag: every flag with every value of a few bad ones."""
    flags = [each for each in leaf.command.params if isinstance(each, click.Option) and _kind(each) != "flag"]
    numbers = itertools.count()
    for option in flags:
        seeds = _seeds(leaf) or [[]]
        having = [seed for seed in seeds if any(_has(seed, flag) for flag in option.opts)]
        for seed in (having or seeds)[:2]:
            words = [word.replace("SERVERS", servers) if isinstance(word, str) else word for word in seed]
            for flag in option.opts:
                words = _without(words, flag)
            bounded = (
                [*words, "--timeout", "300"] if any("--timeout" in each.opts for each in flags) else words
            )
            for value in _BAD_NUMBERS if _kind(option) in ("number", "time") else _BAD_TEXTS:
                environment = {"PK_BOOTSTRAP_SERVER": servers, "SIGNAL": "99"}
                line = [
                    *leaf.words,
                    *_in_a_group_of_its_own(words if "--timeout" in option.opts else bounded, next(numbers)),
                    _flag(option),
                    value,
                ]
                yield Line(line, b"k\tv\n", environment, {}, is_endless=True)


def _in_a_group_of_its_own(words: Sequence[Word], number: int) -> list[Word]:
    """A line whose consumer joins another group than those of the lines before.

    One that Ctrl-C stops while it joins leaves a member, for which the group's next one would wait a session time-out.
    """
    return [
        f"{word}-{number}" if before == "--group-id" else word
        for before, word in zip(["", *words], words, strict=False)
    ]


_BAD_NUMBERS: Final = (
    "2147483648",
    "9223372036854775808",
    "-9223372036854775809",
    "1" + "0" * 30,
    "-1",
    "nan",
    "1e308",
)
_BAD_TEXTS: Final = ("\udcff", "²", "", "a\nb", "x" * 70_000, "-1", "1" + "0" * 30)


def _without(words: Sequence[Word], flag: str) -> list[Word]:
    """A line without a flag and its value."""
    kept: list[Word] = []
    for before, word in zip(["", *words], words, strict=False):
        is_flag = isinstance(word, str) and word.partition("=")[0] == flag
        if not is_flag and before != flag:
            kept.append(word)
    return kept


_BOUNDS: Final[Mapping[str, str]] = {"--timeout": "300", "--timeout-ms": "300"}
"""Flags that say how long a command may go on, and what they say here."""
_ENDLESS: Final = frozenset(
    {
        "pk-mirror-maker",
        "pk-verifiable-producer",
        "pk-verifiable-consumer",
        "pk-top",
        "pk-metrics",
        "pk-replica-verification",
        "pk-console-consumer",
    }
)
_ENDLESS_FLAGS: Final = ("--watch", "--wait")


def _has(words: Sequence[Word], flag: str) -> bool:
    return any(isinstance(word, str) and word.partition("=")[0] == flag for word in words)


def _in_a_row(words: Sequence[Word], flag: str, value: str) -> bool:
    return any(one == flag and other == value for one, other in itertools.pairwise(words))


def _flag(option: click.Option) -> str:
    return max(option.opts, key=len)


@st.composite
def _written(draw: st.DrawFn, leaf: Leaf, param: click.Option, *, is_odd: bool, servers: str) -> list[Word]:
    flag = draw(st.sampled_from(param.opts))
    if _kind(param) == "flag":
        return [flag]
    value = draw(_odd(leaf, param) if is_odd else _good(leaf, param, servers))
    if flag.startswith("--") and draw(st.integers(0, 4)) == 0:
        return [
            value._replace(before=f"{flag}={value.before}") if isinstance(value, File) else f"{flag}={value}"
        ]
    return [flag, value]


_NAMES_FILE: Final = ".cache/pkafka/names.json"
_PROFILES: Final = b'default-profile = "local"\n[profiles.local]\nclient.id = "a"\nsasl.mechanism = "PLAIN"\n'
_DEV_BROKER: Final = {
    "pid": 1,
    "bootstrap": "127.0.0.1:1",
    "directory": "gone",
    "brokers": 2,
    "others": [1],
    "zookeeper": None,
}
_surroundings: Final[st.SearchStrategy[Mapping[str, bytes]]] = st.one_of(
    st.just({}),
    st.just({}),
    st.just({}),
    st.one_of(
        st.just(_PROFILES),
        damaged(_PROFILES),
        st.sampled_from(
            [
                b"",
                b"profiles = 1",
                b"[profiles]\nlocal = 1",
                b"[profiles.local]\na = 2026-01-01",
                b'default-profile = "b"',
            ]
        ),
        st.sampled_from(
            [
                b"default-profile = 1",
                b"[profiles.local]\na = [[1]]",
                b"a = " + b"[" * 3_000,
                b'[profiles.local]\n"" = "x"',
            ]
        ),
    ).map(lambda data: {".pkafka.toml": data}),
    changed_somewhere({"127.0.0.1:1": {"topics": {"at": 1e12, "names": ["a"]}}}).map(
        lambda document: {_NAMES_FILE: json.dumps(document).encode()}
    ),
    changed_somewhere(_DEV_BROKER).map(
        lambda document: {".local/state/pkafka/dev/default.json": json.dumps(document).encode()}
    ),
)
_environments: Final = st.sampled_from(
    [
        {},
        {},
        {},
        {},
        {"PK_COMPAT": "3.9"},
        {"JMX_PORT": "²"},
        {"PK_PROFILE": "nobody"},
        {"PK_BOOTSTRAP_SERVER": ""},
        {"SHELL": ""},
    ]
)
