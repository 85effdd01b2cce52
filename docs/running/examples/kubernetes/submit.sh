#!/bin/sh
# A postmortem with driver and executors in pods of their own:
#   submit.sh https://API-SERVER:6443 /shared/logs... -o /shared/out
#
# /shared is the volume claim `kafka-forensics`, which all pods mount (ReadWriteMany): archives and
# OUT lie on it. rbac.yaml makes the service account. The image is that of the Dockerfile beside.
set -eu
server=$1
shift
image="${IMAGE:-registry.example.org/kafka-forensics:0.1.0}"

claim() { # claim driver|executor: mounts the shared volume there
  prefix="spark.kubernetes.$1.volumes.persistentVolumeClaim.shared"
  echo "--conf $prefix.options.claimName=kafka-forensics --conf $prefix.mount.path=/shared"
}

# shellcheck disable=SC2046 # the claims are words of their own
exec spark-submit \
  --master "k8s://$server" \
  --deploy-mode cluster \
  --name kafka-forensics \
  --conf "spark.kubernetes.container.image=$image" \
  --conf spark.kubernetes.namespace="${NAMESPACE:-default}" \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=kafka-forensics \
  --conf spark.executor.instances="${EXECUTORS:-4}" \
  --conf spark.executor.memory="${EXECUTOR_MEMORY:-3g}" \
  $(claim driver) \
  $(claim executor) \
  local:///opt/jobs/postmortem.py "$@"
