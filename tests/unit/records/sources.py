"""The sources of the inner loops as modules, also where their compiled forms stand beside them."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from pkafka.records import loops


def plain_loops(name: str = "_loops") -> ModuleType:
    """The source of ``pkafka.records.<name>``, under another name."""
    path = Path(loops.__file__).with_name(f"{name}.py")
    loader = SourceFileLoader(f"pkafka.records.{name}_plain", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
