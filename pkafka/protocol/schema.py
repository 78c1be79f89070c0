"""How a message of the wire is declared: a class whose attributes name type, versions, default and tag.

A declaration is data. Nothing is compiled when a module of messages is imported: :mod:`pkafka.protocol.codec`
compiles one encoder or decoder for a class and a version when it is first used, and ``__init__`` is compiled when
the first object is made. So importing a message costs what making its classes costs.

Versions are written as Kafka writes them: ``"3"``, ``"0-2"``, ``"7+"`` or ``"none"``.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias, dataclass_transform

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The types of a fixed size, with their :mod:`struct` codes."""

VERSION_MAX: Final = 0x7FFF


def version_range(text: str) -> range:
    """The versions that ``text`` ("3", "0-2", "7+" or "none") names; open ends reach to 32767."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_MAX + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class Field:
    """One declared attribute. The codec reads it; message objects never hold one."""

    __slots__ = (
        "default",
        "element",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        default: object,
        nullable: str,
        ignorable: bool,
        tag: int | None,
        tagged: str | None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.default = default
        self.nullable = nullable
        self.ignorable = ignorable
        self.tag = tag
        self.tagged = tagged or versions
        self.struct: type[Message] | None = None
        self.element: Field | None = None

    def is_in(self, version: int) -> bool:
        """Whether this version carries the field, tagged or not."""
        return version in version_range(self.versions)

    def is_nullable(self, version: int) -> bool:
        """Whether None is legal in this version."""
        return version in version_range(self.nullable)

    def is_tagged(self, version: int) -> bool:
        """Whether this version carries the field in its tag section (KIP-482)."""
        return self.tag is not None and version in version_range(self.tagged)


_UNSET: Final = object()


class _MessageType(type):
    """Takes the fields out of a class body and makes the class slotted."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        versions: str = "0+",
        flexible: str = "none",
    ) -> "_MessageType":
        fields = []
        for attribute, value in namespace.items():
            if type(value) is Field:
                value.name = attribute
                fields.append(value)
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple([field.name for field in fields])
        namespace["__fields__"] = tuple(fields)
        namespace["__api_key__"] = key
        namespace["__versions__"] = versions
        namespace["__flexible__"] = flexible
        return super().__new__(mcs, name, bases, namespace)


@dataclass_transform(kw_only_default=True)
class Message(metaclass=_MessageType):
    """A message of the protocol or a structure inside one: mutable, slotted, made with keywords.

    Class keywords of a whole message: ``key`` (API key, None for a record), ``versions`` (all that are valid)
    and ``flexible`` (those with compact sizes and tag sections). Structures take theirs from the message.
    """

    __fields__: ClassVar[tuple[Field, ...]]
    __api_key__: ClassVar[int | None]
    __versions__: ClassVar[str]
    __flexible__: ClassVar[str]

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - replaced by a compiled one on first use
        cls = type(self)
        compiled = _compile_init(cls)
        type.__setattr__(cls, "__init__", compiled)
        compiled(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.__fields__)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.__fields__)
        return f"{type(self).__name__}({values})"


def _compile_init(cls: type[Message]) -> Callable[..., None]:
    names: dict[str, Any] = {"_UNSET": _UNSET}
    parameters, body = [], []
    for field in cls.__fields__:
        name = field.name
        if field.default is _UNSET:
            made = "[]" if field.kind == "array" else f"_new_{name}()"
            names[f"_new_{name}"] = field.struct
            parameters.append(f"{name}=_UNSET")
            body.append(f" self.{name} = {made} if {name} is _UNSET else {name}")
        else:
            parameters.append(f"{name}={field.default!r}")
            body.append(f" self.{name} = {name}")
    header = f"def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}):\n"
    # The source is made of declared names and defaults only; nothing from outside comes into it.
    exec(header + ("\n".join(body) or " pass"), names)  # noqa: S102
    init: Callable[..., None] = names["__init__"]
    return init


def is_made_fresh(field: Field) -> bool:
    """Whether the default is a new list or structure for each message."""
    return field.default is _UNSET


# The functions below stand in class bodies in the place of the default value; their declared result is Any
# because the annotation at their left says the type of the attribute.
_Declared: TypeAlias = Any


def _scalar(kind: str, zero: object) -> Callable[..., _Declared]:
    def declare(
        versions: str = "0+",
        *,
        default: object = zero,
        nullable: str = "none",
        ignorable: bool = False,
        tag: int | None = None,
        tagged: str | None = None,
    ) -> _Declared:
        return Field(kind, versions, default, nullable, ignorable, tag, tagged)

    return declare


boolean = _scalar("bool", False)
int8 = _scalar("int8", 0)
int16 = _scalar("int16", 0)
uint16 = _scalar("uint16", 0)
int32 = _scalar("int32", 0)
uint32 = _scalar("uint32", 0)
int64 = _scalar("int64", 0)
float64 = _scalar("float64", 0.0)
uuid = _scalar("uuid", bytes(16))
string = _scalar("string", "")
binary = _scalar("bytes", b"")
record_set = _scalar("records", None)


def array(
    of: type[Message] | Callable[..., _Declared],
    versions: str = "0+",
    *,
    default: object = _UNSET,
    nullable: str = "none",
    ignorable: bool = False,
    tag: int | None = None,
    tagged: str | None = None,
) -> _Declared:
    """A list of structures or of one of the scalars above; empty unless ``default=None``."""
    field = Field("array", versions, default, nullable, ignorable, tag, tagged)
    if isinstance(of, type):
        field.struct = of
    else:
        field.element = of()
    return field


def struct(
    of: type[Message],
    versions: str = "0+",
    *,
    default: object = _UNSET,
    nullable: str = "none",
    ignorable: bool = False,
    tag: int | None = None,
    tagged: str | None = None,
) -> _Declared:
    """One structure; a new one of defaults unless ``default=None``."""
    field = Field("struct", versions, default, nullable, ignorable, tag, tagged)
    field.struct = of
    return field
