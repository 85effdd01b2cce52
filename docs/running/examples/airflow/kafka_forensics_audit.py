"""Airflow 3: audits the Kafka logs each Monday morning; put this file into the DAGs folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="kafka_forensics_audit",
    description="Adds the last week of Kafka logs to the store and draws its page",
    schedule="10 4 * * 1",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    # The audit reads whatever it has not seen: weeks that were missed need no runs of their own.
    catchup=False,
    max_active_runs=1,
    tags=["kafka"],
):
    BashOperator(
        task_id="audit",
        bash_command=(
            "/opt/kafka-forensics/bin/kafka-forensics audit /srv/kafka-logs"
            " --store /srv/kafka-forensics/store --quiet"
        ),
        # Somebody else's audit holds the store: this one is not needed.
        skip_on_exit_code=5,
        # A killed run leaves the store as it was, so that it can simply be tried again.
        retries=2,
        retry_delay=timedelta(minutes=15),
        execution_timeout=timedelta(hours=6),
    )
