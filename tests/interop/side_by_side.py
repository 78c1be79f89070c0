"""One command of pkafka and one of Kafka's Java tools, run against the same cluster."""

from tests.differences import first_difference
from tests.forked_commands import commands
from tests.interop.conftest import JavaTool, System


def pk(module: str, *args: object, stdin: str = "", code: int = 0) -> str:
    """Run a pk-* command in a process of its own; returns its standard output."""
    done = commands.run(module, [str(arg) for arg in args], stdin=stdin)
    assert done.returncode == code, done
    return done.stdout


class SideBySide:
    """Runs one tool of both makes against one cluster."""

    def __init__(self, tool: JavaTool, system: System) -> None:
        self.bootstrap = system.bootstrap
        self.log_dir = system.log_dir
        self._tool = tool

    def same(self, names: tuple[str, str], *args: object, unordered: bool = False) -> str:
        """Run both makes, insist on the same standard output, and return it."""
        module, java_class = names
        server = ("--bootstrap-server", self.bootstrap)
        ours = pk(module, *server, *args)
        theirs = self._tool(java_class, *server, *[str(arg) for arg in args])
        assert theirs.returncode == 0, theirs
        if unordered:
            assert not first_difference(sorted(ours.splitlines()), sorted(theirs.stdout.splitlines()))
        else:
            assert not first_difference(ours, theirs.stdout)
        return ours

    def fail_alike(self, names: tuple[str, str], *args: object) -> str:
        """Run both makes, insist on failure and the same standard output, and return it."""
        module, java_class = names
        server = ("--bootstrap-server", self.bootstrap)
        ours = pk(module, *server, *args, code=1)
        theirs = self._tool(java_class, *server, *[str(arg) for arg in args])
        assert (theirs.returncode, theirs.stdout) == (1, ours)
        return ours

    def create(self, topic: str, *args: object) -> None:
        """Create a topic with pk-topics."""
        pk("topics", "--bootstrap-server", self.bootstrap, "--create", "--topic", topic, *args)

    def produce(self, topic: str, text: str, *args: object) -> None:
        """Send lines with pk-console-producer."""
        pk("console_producer", "--bootstrap-server", self.bootstrap, "--topic", topic, *args, stdin=text)
