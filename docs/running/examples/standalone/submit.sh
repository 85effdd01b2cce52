#!/bin/sh
# A postmortem on a standalone cluster: submit.sh spark://HOST:7077 ARCHIVE... -o OUT
#
# Run it in a folder that holds the zip of `make dist`, executors.tar.gz of `make dist-executors`,
# and jobs/postmortem.py. The driver runs here: PYSPARK_DRIVER_PYTHON names a Python in which
# kafka-forensics is installed, PYSPARK_PYTHON the plain Python of the same version on every node.
set -eu
master=$1
shift

export PYSPARK_PYTHON="${PYSPARK_PYTHON:-python3}"
exec spark-submit \
  --master "$master" \
  --py-files "$(echo kafka-forensics-*-py.zip)" \
  --archives "executors.tar.gz#executors" \
  --conf spark.executorEnv.PYTHONPATH=executors \
  --executor-memory "${EXECUTOR_MEMORY:-2g}" \
  postmortem.py "$@"
