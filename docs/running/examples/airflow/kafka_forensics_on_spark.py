"""Airflow 3: a postmortem of a day's logs on a Spark cluster, and the same in a single pod.

Both read from a store and write to it, so that neither needs a disk that others see. The postmortem
on Spark is what large archives need; for most the pod is enough.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

LOGS = "s3://kafka-logs/{{ ds }}"
OUT = "s3://team-sre/postmortems/{{ ds }}"

with DAG(
    dag_id="kafka_forensics_on_spark",
    description="Reads a day of Kafka logs, and leaves its page in a store",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["kafka"],
):
    SparkSubmitOperator(
        task_id="on_spark",
        conn_id="spark_default",
        # Of `make dist` and `make dist-executors`; see docs/running/clusters.md.
        application="/opt/kafka-forensics/postmortem.py",
        py_files="/opt/kafka-forensics/kafka-forensics-0.1.0-py.zip",
        archives="/opt/kafka-forensics/executors.tar.gz#executors",
        conf={"spark.executorEnv.PYTHONPATH": "executors"},
        executor_memory="2g",
        name="kafka-forensics {{ ds }}",
        application_args=[LOGS, "-o", OUT],
        execution_timeout=timedelta(hours=6),
    )

    KubernetesPodOperator(
        task_id="in_one_pod",
        name="kafka-postmortem",
        image="registry.example.org/kafka-forensics:0.1.0",
        cmds=["kafka-forensics"],
        arguments=["postmortem", LOGS, "-o", OUT, "--quiet"],
        # To it a role of the cloud is bound that may read the logs and write the output.
        service_account_name="kafka-forensics",
        env_vars={"AWS_REGION": "eu-central-1"},
        # 3 and 4 are answers of a run that came to its end: see what programs should look at.
        on_finish_action="delete_pod",
        execution_timeout=timedelta(hours=6),
    )
