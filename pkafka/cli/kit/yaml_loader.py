"""Reading YAML that a person wrote: an error in a value names its line."""

import yaml


class _Loader(yaml.SafeLoader):
    """PyYAML's, which takes for granted that a value fits its tag, as ``!!int x`` and ``2026-02-30`` do not."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            kind = node.tag.rpartition(":")[2]
            problem = f"{str(node.value)[:80]!r} is no value of !!{kind}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def load_yaml(text: bytes) -> object:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: it is no YAML; of a kind with ``problem_mark`` where a place can be named.
        RecursionError: it is nested too deeply.
    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
