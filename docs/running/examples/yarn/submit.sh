#!/bin/sh
# A postmortem on YARN, the driver in the cluster too: submit.sh ARCHIVE... -o OUT
#
# Run it in a folder that holds the zip of `make dist`, environment.tar.gz (a packed Python with
# kafka-forensics in it, see docs/running/README.md) and jobs/postmortem.py. ARCHIVE and OUT are
# absolute paths on a file system that every node has mounted.
set -eu

exec spark-submit \
  --master yarn \
  --deploy-mode cluster \
  --name kafka-forensics \
  --py-files "$(echo kafka-forensics-*-py.zip)" \
  --archives "environment.tar.gz#environment" \
  --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.yarn.maxAppAttempts=1 \
  --driver-memory "${DRIVER_MEMORY:-2g}" \
  --num-executors "${EXECUTORS:-4}" \
  --executor-cores 2 \
  --executor-memory "${EXECUTOR_MEMORY:-3g}" \
  postmortem.py "$@"
