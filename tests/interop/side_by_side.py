"""One command of pkafka and one of Kafka's Java tools, run against the same cluster."""

from tests.differences import first_difference
from tests.forked_commands import commands
from tests.interop.conftest import JavaTool, System


def pk(module: str, *args: object, stdin: str = "", code: int = 0) -> str:
    """Run a pk-* command in a process of its own; returns its standard output."""
    done = commands.run(module, [str(arg) for arg in args], stdin=stdin)
    assert done.returncode == code, done
    return done.stdout


def _difference(ours: str, theirs: str, *, unordered: bool) -> str:
    if unordered:
        return first_difference(sorted(ours.splitlines()), sorted(theirs.splitlines()))
    return first_difference(ours, theirs)


class SideBySide:
    """Runs one tool of both makes against one cluster."""

    def __init__(self, tool: JavaTool, system: System) -> None:
        self.bootstrap = system.bootstrap
        self.log_dir = system.log_dir
        self._tool = tool

    def same(self, names: tuple[str, str], *args: object, unordered: bool = False) -> str:
        """Run both makes, insist on the same standard output, and return it.

        What another test has left on the cluster may change between the two: a topic that goes, a transaction whose
        time is over. So where they differ ours is run again, and the difference counts if it says the same again.
        """
        module, java_class = names
        server = ("--bootstrap-server", self.bootstrap)
        ours = pk(module, *server, *args)
        while True:
            theirs = self._tool(java_class, *server, *[str(arg) for arg in args])
            assert theirs.returncode == 0, theirs
            difference = _difference(ours, theirs.stdout, unordered=unordered)
            if not difference:
                return ours
            before, ours = ours, pk(module, *server, *args)
            assert ours != before, difference

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
