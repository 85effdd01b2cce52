"""Runs a real YARN in one process: a resource manager and two node managers, until stdin ends.

Hadoop's own program for that starts MapReduce, too, whose parts its jars for clients do not have:
so its class is asked for here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from forensics.engine import java

SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    # It would start nothing where a disk is nearly full.
    "yarn.nodemanager.disk-health-checker.enable": "false",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    # An application master may have more than a tenth.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
}


def main(jars: str, settings: Path) -> None:
    """Start it in the current folder, write its settings, and say so."""
    found = java.find_java(os.environ)
    logging = (Path(pyspark.__file__).parent / "jars").glob("log4j-*.jar")
    port = launch_gateway(
        classpath=":".join([f"{jars}/*", *map(str, logging)]),
        javaopts=["-Xmx400m", "--add-opens=java.base/java.lang=ALL-UNNAMED"],
        java_path=f"{found.home}/bin/java",
        die_on_exit=True,
    )
    parameters = GatewayParameters(port=port, auto_convert=True)
    jvm = JavaGateway(gateway_parameters=parameters).jvm
    wanted = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in SETTINGS.items():
        wanted.set(name, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("forensics", 2, 1, 1)
    cluster.init(wanted)
    cluster.start()
    if not cluster.waitForNodeManagersToConnect(60_000):
        sys.exit("the node managers do not come")
    out = jvm.java.io.FileOutputStream(str(settings))
    cluster.getConfig().writeXml(out)
    out.close()
    print("up", flush=True)
    sys.stdin.read()
    cluster.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
