"""What a distributed worker begins with: its settings, its plug-ins, and the host maker, which forks hosts.

:meth:`Setup.of` forks the host maker before the worker imports the REST API and the modules of its group. A host,
which is a process that runs tasks, inherits the memory of the host maker: so modules that only the worker uses stay out
of it.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, Self

from pkafka.connect.config_providers import load_providers, resolved
from pkafka.connect.distributed.config import distributed_config
from pkafka.connect.hosts.host import run_host
from pkafka.connect.hosts.hosted_worker import hosts_of
from pkafka.connect.hosts.maker import HostMaker
from pkafka.connect.memory import have_one_heap
from pkafka.connect.plugin_path import plugins_of_worker
from pkafka.connect.plugins import Plugins
from pkafka.connect.worker_config import WorkerConfig


class Setup(NamedTuple):
    """What :class:`~pkafka.connect.distributed_worker.DistributedWorker` is made from."""

    config: WorkerConfig
    plugins: Plugins
    maker: HostMaker | None
    """None: connectors and tasks run in the worker's own process."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Read the settings, and load the plug-ins. The process must have one thread as yet.

        Raises:
            ConfigError: a setting is refused.
        """
        have_one_heap()
        plugins = plugins_of_worker(properties)
        config = distributed_config(resolved(properties, load_providers(properties)), plugins)
        maker = HostMaker.begin(partial(run_host, config, plugins)) if hosts_of(config) else None
        return cls(config, plugins, maker)
