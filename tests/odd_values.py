"""Values that programs trip over: texts, numbers, times, servers; JSON, YAML and properties; damage to bytes."""

import json
from typing import Any, Final

from hypothesis import strategies as st

# execve(2) ends a word at the first NUL, so no word has one; bytes that are no UTF-8 arrive as half surrogates.
_ODD_TEXTS: Final = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "\r\n",
        "a\nb",
        " a ",
        "-",
        "--",
        "-x",
        "=",
        "a=",
        "=a",
        "a=b=c",
        ":",
        "a:",
        ":0",
        "a:b:c",
    ),
    *(
        "a:0,1",
        "a:0-",
        "a:1-0",
        "a:-1",
        ",",
        ",,",
        "a,,b",
        ".",
        "..",
        "../x",
        "/",
        "~",
        "~nobody/x",
        "*",
        "?",
    ),
    *(
        "[",
        "(",
        "(?P<",
        "a{2,1}",
        "a{99999999999}",
        "\\",
        "a\\",
        "[a-",
        "(?<!a*)b",
        "^$",
        ".*",
        "%s",
        "%n",
        "{}",
        "{0}",
        "${x}",
    ),
    *(
        "é",
        "日本語",
        "\u2028",
        "\ufeff",
        "😀",
        "\udcff",
        "a\udc80b",
        "\u0130",
        "ﬀ",
        "x" * 300,
        "x" * 100_000,
        "'",
        '"',
        "#",
        "!",
    ),
    *(
        "null",
        "None",
        "true",
        "nan",
        "inf",
        "-inf",
        "{",
        "[]",
        '{"a":1}',
        "a b",
        "User:",
        "@",
        "a/b",
        "\x1b[31m",
        "\x7f",
    ),
)
_ODD_NUMBERS: Final = (
    *(
        "",
        " ",
        "0",
        "-0",
        "-1",
        "+1",
        "1.5",
        "1e3",
        "1e400",
        "0x10",
        "010",
        " 5",
        "5 ",
        "1_000",
        "٣",
        "²",
        "½",
        "nan",
        "inf",
    ),
    *("-inf", "2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *(
        "-9223372036854775808",
        "99999999999999999999999999",
        "9" * 5_000,
        "1" + "0" * 400,
        "x",
        "1,2",
        "1 2",
        "--",
        "\udcff",
    ),
)
_ODD_TIMES: Final = (
    *_ODD_NUMBERS,
    *("ms", "s", "-5s", "5S", "5 s", "²s", "9" * 400 + "h", "1h1m", "5d", "0.0001s", "99999999999h", "PT5S"),
)
_ODD_MOMENTS: Final = (
    *("9999-12-31T23:59:59.999", "0001-01-01T00:00:00.000", "2026-02-30T00:00:00.000", "2026-13-01", "24:00"),
    *(
        "2026-01-01T00:00:00.000+99:99",
        "2026-01-01T00:00:00.000Z",
        "-999999999d",
        "-10m",
        "-",
        "PnDTnHnMnS",
        "P",
    ),
    *(
        "P1D",
        "PT",
        "P1DT",
        "PT1H",
        "-PT1H",
        "P99999999999D",
        "P1.5D",
        "PT0.0000000001S",
        "0000-00-00T00:00:00.000",
    ),
)
_words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
odd_texts: Final = st.one_of(st.sampled_from(_ODD_TEXTS), _words)
odd_numbers: Final = st.one_of(st.sampled_from(_ODD_NUMBERS), st.integers().map(str))
odd_times: Final = st.one_of(st.sampled_from(_ODD_TIMES), st.sampled_from(_ODD_MOMENTS))
odd_values: Final = st.one_of(odd_texts, odd_numbers, odd_times)

TOPICS: Final = ("plain", "odd", "empty", "missing", "__consumer_offsets")
GROUPS: Final = ("readers", "nobody")
_OBJECT_KEYS: Final = (
    *(
        "version",
        "partitions",
        "topics",
        "topic",
        "partition",
        "offset",
        "replicas",
        "log_dirs",
        "brokers",
        "configs",
    ),
    *("replication-factor", "name", "results", "percentiles_ms", "sources", "sinks", "steps", "job", "sql"),
)


_json_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5),
    st.sampled_from([2**31, 2**63, -(2**31) - 1, 10**30, 0.5, 1e300, -0.0]),
    st.sampled_from([*TOPICS, "any", "", "0", "\ud800", "a\0b", "é", "x" * 300, "a,b"]),
)
json_values = st.recursive(
    _json_leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*_OBJECT_KEYS, "", "\ud800", "0"]), inner, max_size=4),
    ),
    max_leaves=8,
)


def changed_somewhere(document: Any) -> st.SearchStrategy[Any]:
    """A document with one value in it replaced, removed or doubled."""
    places: list[tuple[Any, ...]] = []

    def walk(value: Any, path: tuple[Any, ...]) -> None:
        places.append(path)
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, item in items:
            walk(item, (*path, key))

    walk(document, ())

    def put(path: tuple[Any, ...], what: str, other: Any) -> Any:
        if not path:
            return other
        copied = json.loads(json.dumps(document))
        at = copied
        for key in path[:-1]:
            at = at[key]
        if what == "remove":
            del at[path[-1]]
        elif what == "double" and isinstance(at, list):
            at.append(at[path[-1]])
        elif what == "rename" and isinstance(at, dict):
            at[str(other)] = at.pop(path[-1])
        else:
            at[path[-1]] = other
        return copied

    return st.builds(
        put,
        st.sampled_from(places),
        st.sampled_from(["replace", "replace", "remove", "double", "rename"]),
        json_values,
    )


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """Bytes with something cut, put in or turned over."""

    def damage(at: int, what: str, other: bytes) -> bytes:
        if what == "cut":
            return data[:at]
        if what == "insert":
            return data[:at] + other + data[at:]
        if what == "overwrite":
            return data[:at] + other + data[at + len(other) :]
        return data[:at] + data[at + len(other) :]

    return st.builds(
        damage,
        st.integers(0, len(data)),
        st.sampled_from(["cut", "insert", "overwrite", "drop"]),
        st.one_of(
            st.binary(max_size=4),
            st.sampled_from([b"\0", b"\xff", b"\\u12", b"\xed\xa0\x80", b'"', b"{", b"\n", b"=", b"\\"]),
        ),
    )


PROPERTIES_TEXTS: Final = (
    b"\\u12",
    b"a=\\u12x4",
    b"a=\\",
    b"=\n=\n",
    b"a\\\n",
    b"\\",
    b"a:b:c\n",
    b"!\n#\n",
    b"a=\xff",
    b"\xef\xbb\xbfa=1",
    b"a=\\uD800",
    b"a=\0",
    b"key\0=1",
    b"a" * 70_000,
    b"\r\r\n",
    b"bootstrap.servers=\n",
    b"bootstrap.servers=,\n",
)


yaml_texts: Final = st.sampled_from(
    [
        b"",
        b"a: b: c",
        b"- a\nb",
        b"\t",
        b"a: &x [*x]",
        b"*x",
        b"!!python/object:os.system x",
        b"? [a]\n: b",
        b"{[a]: b}",
        b"topics: {a: {configs: &c {x: *c}}}",
        b"&a [*a]",
        b"a: !!int x",
        b"a: 2026-99-99",
        b"a: 0o9",
        b"a: !!binary x",
        b"--- a\n--- b",
        b"%YAML 9.9\n--- a",
        b"topics: {2026-01-01: {}}",
        b"topics: {null: {}}",
        b"topics: {1.5: {}}",
        b"topics: {a: {configs: {b: 2026-01-01}}}",
        b"topics: {a: {configs: {b: [[c]]}}}",
        b"brokers: {\xc2\xb2: {}}",
        b"brokers: {true: {}}",
        b"topics: {a: {partitions: 99999999999}}",
        b"version: [1]",
        b"version: .nan",
        b"a: " + b"[" * 5_000,
        b'topics: {a: {configs: {b: "\\uD800"}}}',
        b'topics: {"a\\0b": {partitions: 1}}',
        b"\xff\xfe",
        b"a: \x00",
        b"x: &a [1]\ny: {<<: *a}",
        b"<<: 1",
        b"a: {<<: [1]}",
        b"!!set {a, b}",
        b"!!omap [1]",
        b"!!timestamp x",
        b"a: 190:20:30",
        b"a: 1__0",
        b"topics: {a: {partitions: 1__0}}",
        b"a: !!float x",
        b"a: !!bool x",
        b"a: !!null x",
    ]
)


odd_servers: Final = st.sampled_from(
    [
        "",
        ",",
        ":",
        "localhost",
        "localhost:",
        ":9092",
        "localhost:x",
        "localhost:0",
        "localhost:99999",
        "localhost:-1",
        "[::1]:1",
        "[::1",
        "::1:1",
        "no such host:1",
        "nowhere.invalid:1",
        "\udcff:1",
        "é:1",
        "x" * 300 + ":1",
        "a" * 64 + ".b:1",
        "127.0.0.1:1,127.0.0.1:2",
        "127.0.0.1:1,",
        "localhost:²",
        "localhost:٣",
        "PLAINTEXT://localhost:1",
        "localhost:1/x",
        "xn--:1",
        ".:1",
        "..:1",
        "a..b:1",
        "localhost:1_0",
        "localhost: 1",
        " localhost:1 ",
    ]
)


stdins: Final = st.one_of(
    st.sampled_from(
        [
            b"",
            b"\n",
            b"a",
            b"a\nb\n",
            b"k\tv\n",
            b"\0",
            b"\xff\xfe\n",
            b"x" * 200_000,
            b"h:v,h2\tk\tv\n",
            b"\r\r\n\n",
            b"y\n",
            b"n\n",
        ]
    ),
    st.sampled_from(
        [
            b'{"value":1}\n',
            b'{"key":"a","value":null,"headers":[1]}\n',
            b"{\n",
            b"[]\n",
            b'{"partition":-5,"value":"x"}\n',
            b'{"timestamp":1e99,"value":"x"}\n',
            b'{"value":"\\ud800"}\n',
            b'{"value_base64":"!"}\n',
        ]
    ),
    st.sampled_from(
        [
            b"ls /\nget /x\nquit\n",
            b"create /a b\nls -R /\n",
            b"set\n",
            b"'\n",
            b"get '\n",
            b"delquota -x /\n",
            b"redo 99\nredo x\n",
            b"connect x\n",
        ]
    ),
    st.binary(max_size=40),
)
