"""Measuring on a Ray cluster: the same jobs, placed by Ray on whichever node has a free GPU or core.

Four processes take part. The client (command line, explorer) imports no ray: it starts the **driver**
(`fa_core.engine.cluster.driver`), a child that speaks JSON lines as a worker does and keeps Ray's chatter in a log
file. The driver submits Ray tasks; each task (`fa_core.engine.cluster.node`) runs in one of Ray's own processes on
some node and hands its job to an ordinary `fa_core.engine.worker` beside it, so that a checkpoint is measured there
exactly as here, and one that kills its worker costs no node.
"""

from fa_core.engine.cluster.pool import RayPool

__all__ = ["RayPool"]
