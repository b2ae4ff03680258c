"""A Ray cluster on this machine: a head that measures nothing, and nodes of one core that can be killed."""

import contextlib
import os
import shutil
import tempfile

import psutil


class TestCluster:
    """Nodes are added and taken away; every test leaves as many as it found."""

    __test__ = False

    def __init__(self):
        # not pytest's own folder: the paths of Ray's sockets would be too long
        self.folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        # five refused checks, one a second, instead of one every three: a killed node is declared dead in 5 s
        os.environ |= {"RAY_TMPDIR": self.folder, "RAY_health_check_period_ms": "1000"}
        from ray.cluster_utils import Cluster

        quiet = {"include_dashboard": False, "include_log_monitor": False}
        head = {"num_cpus": 0, "node_name": "head", **quiet}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)

    @property
    def address(self):
        return self._cluster.address

    def add(self, name, *, gpus=0, **environment):
        """A node of one core; what it starts sees these variables."""
        os.environ["RAY_TMPDIR"] = self.folder
        return self._cluster.add_node(
            num_cpus=1, num_gpus=gpus, node_name=name, env_vars=environment
        )

    def kill(self, node):
        """At once, with everything that runs on it, as if its plug were pulled."""
        for process in _processes(node):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._cluster.remove_node(node, allow_graceful=False)

    def remove(self, node):
        """Let a node take its leave, so that the others need not find out that it is gone."""
        if node in self._cluster.worker_nodes:
            self._cluster.remove_node(node)

    def close(self):
        self._cluster.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def _processes(node):
    own = [
        psutil.Process(info.process.pid) for infos in node.all_processes.values() for info in infos
    ]
    return own + [child for process in own for child in process.children(recursive=True)]
