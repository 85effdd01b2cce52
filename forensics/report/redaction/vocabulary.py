"""The words of Kafka's own: a topic may be called "broker", and the text is full of brokers.

They are taken from the rules, which hold the fixed text of every line that is read.
"""

from __future__ import annotations

import functools
import re

from forensics.events.packs import catalogue

__all__ = ["is_common", "is_internal", "is_node", "is_word", "words_in"]

_WORD = re.compile(r"[A-Za-z]+")
_TOKEN = re.compile(r"[\w.-]*\w")
_NODE = re.compile(r"(?:broker|controller|kafka|node|server)[-_.]?\d+", re.IGNORECASE)
# What stands in the names of files, threads and folders everywhere.
_USUAL = frozenset({
    "log", "logs", "gz", "tar", "tgz", "zip", "zst", "bz", "xz",
    "lz", "txt", "out", "err", "json", "stdout", "stderr", "current", "archive",
    "backup", "old", "tmp", "var", "opt", "data", "home", "mnt", "srv",
    "usr", "app", "apps", "pod", "pods", "container", "containers", "kubernetes", "docker",
    "journal", "syslog", "messages", "incident", "cluster", "node", "nodes", "broker", "brokers",
    "controller", "controllers", "client", "clients", "kafka", "zookeeper", "server", "servers",
    "state", "change", "gc", "cleaner", "request", "authorizer", "connect", "worker", "mirror",
    "maker", "streams", "producer", "producers", "consumer", "consumers", "admin", "pool", "thread",
    "main",
    "executor", "nio", "selector", "localhost", "the", "of", "part", "file", "files",
})  # fmt: skip
# Topics that Kafka, and what usually runs beside it, make for themselves.
_INTERNAL = frozenset({
    "__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state",
    "__remote_log_metadata", "@metadata", "_schemas", "connect-configs", "connect-offsets",
    "connect-status",
})  # fmt: skip


@functools.cache
def _known() -> frozenset[str]:
    found = set(_USUAL)
    for rule in catalogue().rules:
        texts = [*rule.loggers]
        for wording in rule.wordings:
            texts += wording.template.literals
            texts += wording.each.template.literals if wording.each else ()
        for text in texts:
            found.update(word.lower() for word in _WORD.findall(text))
            found.update(token.lower() for token in _TOKEN.findall(text))
    return frozenset(found)


def is_word(name: str) -> bool:
    """Whether a name is a word of Kafka's, or too short to tell from one."""
    return len(name) < 3 or name.isdecimal() or name.lower() in _known() or is_node(name)


def is_common(name: str) -> bool:
    """Whether all words in a name are Kafka's: data-plane-kafka-request-handler-3."""
    return is_word(name) or all(word.lower() in _known() for word in words_in(name))


def is_node(name: str) -> bool:
    """Whether a name is as this program calls nodes: broker-1."""
    return _NODE.fullmatch(name) is not None


def is_internal(topic: str) -> bool:
    """Whether a topic is none of the users' own."""
    return topic in _INTERNAL


def words_in(name: str) -> list[str]:
    """Give the runs of letters in a name."""
    return _WORD.findall(name)
