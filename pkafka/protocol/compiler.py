"""Turns a declared message and one version of it into straight-line Python source, and that into functions.

Adjacent fields of a fixed size travel through one ``struct`` call together with the length prefix that follows
them; structures and arrays are written inline, so a whole message is one function without calls of its own. The
source is made of names, versions and defaults of the declarations; nothing that comes from a peer gets into it.

Decoders are called as ``decode(buf, pos, limit) -> (message, end)`` and may raise, besides ProtocolError, what the
codec turns into it: struct.error, IndexError and UnicodeDecodeError. Encoders are called as ``encode(m, out)``.
"""

from collections.abc import Callable
from struct import Struct, calcsize, pack, unpack_from
from typing import Any, Final

from pkafka.errors import ProtocolError
from pkafka.protocol.primitives import read_uvarint, rest_of_uvarint, skip_tags, uvarint
from pkafka.protocol.schema import FIXED, Field, Message, is_made_fresh, version_range

STRING_BYTES_MAX: Final = 0x7FFF
"""Compact sizes could say more, but Kafka reads no longer string in any version."""


def compile_decoder(cls: type[Message], version: int) -> Callable[..., tuple[Any, int]]:
    """The function that reads ``version`` of ``cls``."""
    writer = _DecoderWriter(cls, version)
    writer.line("def decode(buf, pos, limit):")
    writer.depth = 1
    if _holds_records(cls, version):
        writer.line("view = memoryview(buf)")
    writer.line(f"m = new({writer.constant('C', cls)})")
    writer.struct_body("m", cls)
    writer.line("return m, pos")
    return writer.function("decode")


def compile_encoder(cls: type[Message], version: int) -> Callable[..., None]:
    """The function that appends ``version`` of a ``cls`` to a bytearray."""
    writer = _EncoderWriter(cls, version)
    writer.line("def encode(m, out):")
    writer.depth = 1
    writer.struct_body("m", cls)
    writer.line("return None")
    return writer.function("encode")


def size_min(cls: type[Message], version: int, flexible: bool) -> int:
    """The fewest bytes that one ``cls`` takes in ``version``."""
    size = 1 if flexible else 0
    for field in cls.__fields__:
        if field.is_in(version) and not field.is_tagged(version):
            size += _field_size_min(field, version, flexible)
    return size


def _field_size_min(field: Field, version: int, flexible: bool) -> int:
    if field.kind in FIXED:
        return calcsize(">" + FIXED[field.kind])
    if field.kind == "struct":
        assert field.struct is not None
        return 1 if field.is_nullable(version) else size_min(field.struct, version, flexible)
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _holds_records(cls: type[Message], version: int) -> bool:
    return any(
        field.is_in(version)
        and (field.kind == "records" or (field.struct is not None and _holds_records(field.struct, version)))
        for field in cls.__fields__
    )


def null_refused(where: str, size: int) -> ProtocolError:
    """The error of a negative size, or of a null that its field does not allow."""
    return ProtocolError(f"{where}: null or negative size {size}")


def overrun(where: str) -> ProtocolError:
    """The error of a size or count beyond the end of the message."""
    return ProtocolError(f"{where}: longer than what is left of the message")


def too_long(where: str, size: int) -> ProtocolError:
    """The error of a string over :data:`STRING_BYTES_MAX`."""
    return ProtocolError(f"{where}: a string of {size} bytes")


def bad_tag(tag: int) -> ProtocolError:
    """The error of a tag out of order, repeated, or of another size than it says."""
    return ProtocolError(f"tag {tag} is out of order, repeated or of the wrong size")


def unsupported(where: str, version: int) -> ValueError:
    """The error of a value that its version cannot carry."""
    return ValueError(f"{where} is set, but version {version} does not have it")


def bad_uuid(where: str) -> ValueError:
    """The error of an id that is not 16 bytes."""
    return ValueError(f"{where} is not 16 bytes long")


class _Writer:
    """Lines of source and the constants that they name."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version in version_range(cls.__flexible__)
        self.depth = 0
        self._name = f"{cls.__name__}-v{version}"
        self._lines: list[str] = []
        self._count = 0
        self.names: dict[str, Any] = {
            "new": object.__new__,
            "pack": pack,
            "unpack_from": unpack_from,
            "read_uvarint": read_uvarint,
            "rest_of_uvarint": rest_of_uvarint,
            "skip_tags": skip_tags,
            "uvarint": uvarint,
            "null_refused": null_refused,
            "overrun": overrun,
            "too_long": too_long,
            "bad_tag": bad_tag,
            "unsupported": unsupported,
            "bad_uuid": bad_uuid,
        }

    def line(self, text: str) -> None:
        self._lines.append(" " * self.depth + text)

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def source(self) -> str:
        return "\n".join(self._lines)

    def function(self, name: str) -> Callable[..., Any]:
        exec(compile(self.source(), f"<{name} {self._name}>", "exec"), self.names)  # noqa: S102
        function: Callable[..., Any] = self.names[name]
        return function

    def _packer(self, codes: list[str], method: str) -> tuple[str, int]:
        layout = ">" + "".join(codes)
        name = f"{method}_{layout[1:].replace('?', 't')}"
        compiled = Struct(layout)
        self.names[name] = getattr(compiled, method)
        return name, compiled.size


class _DecoderWriter(_Writer):
    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self._run: list[tuple[str, str]] = []

    def _flush(self) -> None:
        if self._run:
            name, size = self._packer([code for _, code in self._run], "unpack_from")
            self.line(f"{', '.join(target for target, _ in self._run)}, = {name}(buf, pos)")
            self.line(f"pos += {size}")
            self._run.clear()

    def struct_body(self, owner: str, cls: type[Message]) -> None:
        tagged = []
        for field in cls.__fields__:
            target = f"{owner}.{field.name}"
            if not field.is_in(self.version):
                self.line(f"{target} = {self._default(field)}")
            elif field.is_tagged(self.version):
                self.line(f"{target} = {self._default(field)}")
                tagged.append(field)
            else:
                self._field(target, field, f"{cls.__name__}.{field.name}")
        if self.flexible:
            self._tag_section(owner, cls, tagged)
        self._flush()

    def _default(self, field: Field) -> str:
        if not is_made_fresh(field):
            return repr(field.default)
        return "[]" if field.kind == "array" else f"{self.constant('C', field.struct)}()"

    def _field(self, target: str, field: Field, where: str) -> None:
        if field.kind in FIXED:
            self._run.append((target, FIXED[field.kind]))
        elif field.kind == "struct":
            self._struct(target, field, where)
        else:
            self._sized(target, field, where)

    def _struct(self, target: str, field: Field, where: str) -> None:
        assert field.struct is not None
        made = self.fresh("e")
        if not field.is_nullable(self.version):
            self.line(f"{target} = {made} = new({self.constant('C', field.struct)})")
            self.struct_body(made, field.struct)
            return
        mark = self.fresh("n")
        self._run.append((mark, "b"))
        self._flush()
        self.line(f"if {mark} == 1:")
        self.depth += 1
        self.line(f"{target} = {made} = new({self.constant('C', field.struct)})")
        self.struct_body(made, field.struct)
        self.depth -= 1
        self.line(f"elif {mark} == -1: {target} = None")
        self.line(f"else: raise null_refused({where!r}, {mark})")

    def _uvarint(self, target: str) -> None:
        self._run.append((target, "B"))
        self._flush()
        self.line(f"if {target} > 127: {target}, pos = rest_of_uvarint(buf, pos, {target})")

    def _sized(self, target: str, field: Field, where: str) -> None:
        size = self.fresh("n")
        if self.flexible:
            self._uvarint(size)
            self.line(f"{size} -= 1")
        else:
            self._run.append((size, "h" if field.kind == "string" else "i"))
            self._flush()
        if field.is_nullable(self.version):
            self.line(f"if {size} == -1: {target} = None")
            self.line(f"elif {size} < 0: raise null_refused({where!r}, {size})")
            self.line("else:")
            self.depth += 1
            self._sized_content(target, field, size, where)
            self.depth -= 1
        else:
            self.line(f"if {size} < 0: raise null_refused({where!r}, {size})")
            self._sized_content(target, field, size, where)

    def _sized_content(self, target: str, field: Field, size: str, where: str) -> None:
        if field.kind == "array":
            self._array(target, field, size, where)
            return
        if field.kind == "string" and self.flexible:
            self.line(f"if {size} > {STRING_BYTES_MAX}: raise too_long({where!r}, {size})")
        self.line(f"end = pos + {size}")
        self.line(f"if end > limit: raise overrun({where!r})")
        content = {"string": "str(buf[pos:end], 'utf-8')", "bytes": "bytes(buf[pos:end])"}.get(
            field.kind, "view[pos:end]"
        )
        self.line(f"{target} = {content}")
        self.line("pos = end")

    def _array(self, target: str, field: Field, count: str, where: str) -> None:
        if field.struct is not None:
            smallest = size_min(field.struct, self.version, self.flexible)
        else:
            assert field.element is not None
            smallest = _field_size_min(field.element, self.version, self.flexible)
        # A count costs the peer four bytes: nothing is allocated for elements that cannot be there.
        factor = "" if smallest <= 1 else f" * {smallest}"
        self.line(f"if {count}{factor} > limit - pos: raise overrun({where!r})")
        if field.element is not None and field.element.kind in FIXED and field.element.kind != "uuid":
            code = FIXED[field.element.kind]
            self.line(f"{target} = list(unpack_from(f'>{{{count}}}{code}', buf, pos))")
            self.line(f"pos += {count}{factor}")
            return
        items = self.fresh("items")
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        made = self.fresh("e")
        if field.struct is not None:
            self.line(f"{made} = new({self.constant('C', field.struct)})")
            self.line(f"{items}.append({made})")
            self.struct_body(made, field.struct)
        else:
            assert field.element is not None
            self._field(made, field.element, where)
            self._flush()
            self.line(f"{items}.append({made})")
        self.depth -= 1

    def _tag_section(self, owner: str, cls: type[Message], tagged: list[Field]) -> None:
        count = self.fresh("t")
        if not tagged:
            self._run.append((count, "B"))
            self._flush()
            self.line(f"if {count}: pos = skip_tags(buf, pos, {count}, limit)")
            return
        self._uvarint(count)
        tag, stop, previous = self.fresh("tag"), self.fresh("stop"), self.fresh("previous")
        self.line(f"{previous} = -1")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.line(f"{tag}, pos = read_uvarint(buf, pos)")
        self.line(f"{stop}, pos = read_uvarint(buf, pos)")
        self.line(f"{stop} += pos")
        self.line(f"if {tag} <= {previous} or {stop} > limit: raise bad_tag({tag})")
        self.line(f"{previous} = {tag}")
        word = "if"
        for field in tagged:
            self.line(f"{word} {tag} == {field.tag}:")
            self.depth += 1
            self._field(f"{owner}.{field.name}", field, f"{cls.__name__}.{field.name}")
            self._flush()
            self.depth -= 1
            word = "elif"
        self.line(f"else: pos = {stop}")
        self.line(f"if pos != {stop}: raise bad_tag({tag})")
        self.depth -= 1


class _EncoderWriter(_Writer):
    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self._run: list[tuple[str, str]] = []
        self._out = "out"

    def _flush(self) -> None:
        if self._run:
            name, _ = self._packer([code for _, code in self._run], "pack")
            values = ", ".join(value for value, code in self._run if code != "x")
            self.line(f"{self._out} += {name}({values})")
            self._run.clear()

    def _uvarint(self, value: str) -> None:
        """End the run with a varint; ``value`` is the name of a variable."""
        before = list(self._run)
        self.line(f"if {value} < 128:")
        self.depth += 1
        self._run.append((value, "B"))
        self._flush()
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        self._run = before
        self._flush()
        self.line(f"{self._out} += uvarint({value})")
        self.depth -= 1

    def struct_body(self, owner: str, cls: type[Message]) -> None:
        tagged = []
        for field in cls.__fields__:
            value, where = f"{owner}.{field.name}", f"{cls.__name__}.{field.name}"
            if not field.is_in(self.version):
                if not field.ignorable:
                    self.line(
                        f"if {self._is_set(value, field)}: raise unsupported({where!r}, {self.version})"
                    )
            elif field.is_tagged(self.version):
                tagged.append(field)
            else:
                self._field(value, field, where)
        if self.flexible:
            self._tag_section(owner, cls, tagged)
        self._flush()

    def _is_set(self, value: str, field: Field) -> str:
        """The condition that ``value`` is not the field's default."""
        if is_made_fresh(field):
            if field.kind == "struct":
                assert field.struct is not None
                return f"{value} != {self.constant('D', field.struct())}"
            return value if field.nullable == "none" else f"({value} is None or {value})"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {field.default!r}"

    def _field(self, value: str, field: Field, where: str) -> None:
        if field.kind in FIXED:
            if field.kind == "uuid":
                self.line(f"if len({value}) != 16: raise bad_uuid({where!r})")
            self._run.append((value, FIXED[field.kind]))
        elif field.kind == "struct":
            self._struct(value, field)
        else:
            self._sized(value, field, where)

    def _struct(self, value: str, field: Field) -> None:
        assert field.struct is not None
        item = self.fresh("e")
        self.line(f"{item} = {value}")
        if not field.is_nullable(self.version):
            self.struct_body(item, field.struct)
            return
        self._flush()
        self.line(f"if {item} is None: {self._out}.append(255)")
        self.line("else:")
        self.depth += 1
        self.line(f"{self._out}.append(1)")
        self.struct_body(item, field.struct)
        self.depth -= 1

    def _sized(self, value: str, field: Field, where: str) -> None:
        size, content = self.fresh("n"), self.fresh("v")
        extra = " + 1" if self.flexible else ""
        self.line(f"{content} = {value}")
        if field.is_nullable(self.version):
            self.line(f"if {content} is None: {size} = {0 if self.flexible else -1}; {content} = b''")
            self.line("else:")
            self.depth += 1
        if field.kind == "string":
            self.line(f"{content} = {content}.encode()")
        self.line(f"{size} = len({content}){extra}")
        if field.is_nullable(self.version):
            self.depth -= 1
        if self.flexible:
            self._uvarint(size)
        else:
            self._run.append((size, "h" if field.kind == "string" else "i"))
            self._flush()
        if field.kind == "array":
            self._array(content, field, where)
        else:
            self.line(f"{self._out} += {content}")

    def _array(self, items: str, field: Field, where: str) -> None:
        if field.element is not None and field.element.kind in FIXED and field.element.kind != "uuid":
            self.line(f"{self._out} += pack(f'>{{len({items})}}{FIXED[field.element.kind]}', *{items})")
            return
        item = self.fresh("e")
        self.line(f"for {item} in {items}:")
        self.depth += 1
        if field.struct is not None:
            self.struct_body(item, field.struct)
        else:
            assert field.element is not None
            self._field(item, field.element, where)
            self._flush()
        self.depth -= 1

    def _tag_section(self, owner: str, cls: type[Message], tagged: list[Field]) -> None:
        if not tagged:
            self._run.append(("", "x"))
            return
        self._flush()
        count, tags, outer = self.fresh("t"), self.fresh("tags"), self._out
        self.line(f"{count} = 0; {tags} = bytearray()")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            assert field.tag is not None
            value = f"{owner}.{field.name}"
            self.line(f"if {self._is_set(value, field)}:")
            self.depth += 1
            self._out = self.fresh("out")
            self.line(f"{count} += 1; {self._out} = bytearray()")
            self._field(value, field, f"{cls.__name__}.{field.name}")
            self._flush()
            self.line(f"{tags} += {uvarint(field.tag)!r} + uvarint(len({self._out})) + {self._out}")
            self._out = outer
            self.depth -= 1
        self.line(f"{self._out} += uvarint({count}) + {tags}")
