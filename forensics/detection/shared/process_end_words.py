"""What is said of a broker whose process ended, by the reason that others give for it."""

from __future__ import annotations

from dataclasses import dataclass

from forensics.detection.context import Row


@dataclass(frozen=True)
class EndWords:
    """`what` it did, `why` that is so in a sentence, and what to do."""

    what: str
    why: str
    action: str
    doubts: tuple[str, ...] = ()


END_WORDS = {
    "oom": EndWords(
        "was killed: memory had run out",
        "The kernel killed the process because memory had run out, that of its container's limit "
        "or that of the machine. A broker can log nothing about it.",
        "Compare the memory limit of broker {broker} with its heap (KAFKA_HEAP_OPTS), and leave "
        "room beside it for direct memory, threads and the page cache: raise the limit or lower "
        "the heap. On a machine that is shared, look what else took the memory.",
    ),
    "jvm": EndWords(
        "crashed: its JVM ended by a fault",
        "The JVM itself crashed, by a fault in its own code or in a native library.",
        "Read the problematic frame in hs_err_pid*.log of broker {broker}: a native library "
        "(compression, encryption) or the JVM is to be replaced by another version.",
    ),
    "native": EndWords(
        "ended: the system gave its JVM no more memory",
        "The JVM asked the system for memory, got none, and ended. Its heap need not have been "
        "full.",
        "Look at hs_err_pid*.log of broker {broker}: fewer threads or a smaller heap, more memory, "
        "or a higher vm.max_map_count, which brokers with many segments need.",
    ),
    "heap": EndWords(
        "ended with exit code 3, as a JVM does whose heap is full",
        "A JVM that is told to exit when its heap is full (-XX:+ExitOnOutOfMemoryError) ends with "
        "that code.",
        "Look what filled the heap of broker {broker} before it gets more (KAFKA_HEAP_OPTS).",
        ("Other programs may end with that code for other reasons.",),
    ),
    "evicted": EndWords(
        "was evicted from its machine",
        "Kubernetes took the pod off its machine: for lack of memory or disk there, or to make "
        "room for another pod.",
        "Give the pods of brokers requests that are their limits and a priority class, so that "
        "others go first, and a disruption budget; look what the machine of broker {broker} "
        "lacked.",
    ),
    "probe": EndWords(
        "was stopped because its liveness probe failed",
        "Kubernetes ends a container whose liveness probe fails. A broker that starts slowly, or "
        "is frozen for a while, is ended just so.",
        "kubectl describe pod   # of broker {broker}: which probe failed, after how long? A probe "
        "that only asks for the port, with a longer time-out, does less harm",
    ),
    "host": EndWords(
        "went with its machine",
        "Its machine went, or started anew: the process had no part in it.",
        "Look at the machine of broker {broker} (power, kernel, hypervisor) before the broker.",
    ),
    "killed": EndWords(
        "was killed by a signal (SIGKILL)",
        "Something killed the process by SIGKILL. Whoever ran it does not call it want of memory; "
        "a stop that takes longer than its time-out ends so, too.",
        "Look who killed broker {broker}: a person, a script, or a stop whose time-out "
        "(terminationGracePeriodSeconds, TimeoutStopSec, docker stop -t) is too short.",
        ("Some versions of container runtimes do not tell an OOM kill as one.",),
    ),
    "exit": EndWords(
        "ended with an error code",
        "The process ended itself, with a code that says that something had failed.",
        "Read the last lines that broker {broker} wrote, also those to its console: they say why.",
    ),
}


def quote(row: Row) -> str:
    """Say in a few words who says what of an end, and where.

    >>> quote({"subject": "pod k-2", "detail": "kafka", "error": "OOMKilled", "value": "137",
    ...        "file": "b.zip!pods/k-2.yaml", "line": 38, "kind": "process_ended"})
    'pod k-2 (kafka): OOMKilled, exit code 137 (b.zip!pods/k-2.yaml:38)'
    """
    detail = f" ({row['detail']})" if row["detail"] and len(row["detail"]) < _SHORT else ""
    code = f"exit code {row['value']}" if row["value"] else None
    told = ", ".join(part for part in (row["error"], code) if part)
    what = told or row["kind"].replace("_", " ")
    return f"{row['subject'] or 'the JVM'}{detail}: {what} ({row['file']}:{row['line']})"


# Messages of events are longer; the evidence has them.
_SHORT = 60
