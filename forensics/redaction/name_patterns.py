"""Spots names in free text by what stands around them: hosts, clients, topics, principals.

What the columns of the tables name is known anyway; this finds what only a text tells.

The words of Kafka's own: a topic may be called "broker", and the text is full of brokers.

They are taken from the rules, which hold the fixed text of every line that is read.

Addresses of the internet protocol in text, told from times, versions and class names.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.packs import load_rule_set

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
    for rule in load_rule_set().rules:
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


_FOUR = re.compile(r"(?<![A-Za-z0-9.])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9]|\.\d)")
_SIX = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?:%\w+)?(?![\w:])"
)
_DIGITS = re.compile(r"\d\.\d")
# As clouds call hosts: ip-10-0-0-1.
_DASHED = re.compile(r"(?<![A-Za-z0-9])(ip|ec2)-((?:\d{1,3}-){3}\d{1,3})(?![A-Za-z0-9])")
_KEPT = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "null", "unresolved"})


def is_kept_host(name: str) -> bool:
    """Whether a host is every machine's own."""
    return name.lower() in _KEPT


def replace_addresses(text: str, pseudonym: Callable[[str], str]) -> str:
    """Put pseudonyms in the place of addresses; those of the machine itself stay."""

    def shown(found: re.Match[str]) -> str:
        plain, _, zone = found[0].partition("%")
        if not _is_address(plain):
            return found[0]
        name = pseudonym(ipaddress.ip_address(plain).compressed)
        return f"{name}%{zone}" if zone else name

    if _DIGITS.search(text):
        text = _FOUR.sub(shown, text)
    if "::" in text or text.count(":") > 6:
        text = _SIX.sub(shown, text)
    if "ip-" in text or "ec2-" in text:
        text = _DASHED.sub(lambda one: pseudonym(one[2].replace("-", ".")), text)
    return text


def _is_address(text: str) -> bool:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None) or found
    return not (mapped.is_loopback or mapped.is_unspecified)


# A name begins where no other one goes on, so that nothing is tried twice.
_NAME = r"(?<![\w.-])([A-Za-z0-9_](?:[\w.-]*\w)?)"
_PORT = r"(?:2181|2182|2183|2888|3888|80[0-9][0-9]|9[0-9]{3}|[1-5]9[0-9]{3})"
_ZONES = (
    "com|net|org|io|edu|gov|mil|int|info|biz|cloud|dev|app|local|internal|intranet|lan|corp|home|"
    "private|localdomain|invalid|test|example|svc|arpa|aws|azure|gcp|de|uk|fr|nl|eu|us|ca|au|jp|cn|"
    "br|ru|ch|at|se|no|pl|it|es|be|dk|fi|cz|pt|ie|nz|kr|sg|hk|tw|za|mx|ua|tr|gr|hu|ro|il|ae"
)
# Each with a cheap question, for RE2, that every text with such a name says yes to.
_HOSTS = (
    # host/1.2.3.4:9092, as Java writes it
    (r"\w/(?:<un|[0-9]|\[?[0-9a-fA-F]*:)",
     rf"{_NAME}/(?:<unresolved>|\d{{1,3}}(?:\.\d{{1,3}}){{3}}|\[?[0-9a-fA-F]*:[0-9a-fA-F]*:)"),
    ("://", rf"://(?:[^\s/@\"']*@)?{_NAME}"),
    # bare, but with a port that is Kafka's or ZooKeeper's, or a name that no word looks like
    (rf":{_PORT}", rf"{_NAME}:{_PORT}(?![\w.:])"),
    (r":[0-9]+ \(id: ",
     r"(?<![\w.-])((?=[\w.]*[\d-])[A-Za-z][\w-]*(?:\.[\w-]+)*):\d{4,5} \(id: "),
    ("(?i:host)", rf"(?i:host(?:[._ ]?name)?)['\"]?\s{{0,2}}[=:]\s{{0,2}}['\"]?{_NAME}"),
    ("(?i:unknownhost|resolve|lookup|getaddrinfo|no such host)",
     (rf"(?i:unknownhost\w*|resolve[sd]?|lookup|getaddrinfo|no such host)\W{{1,3}}"
      rf"(?i:(?:server|host|hostname|address|url|broker) )?['\"]?{_NAME}")),
    (r"EndPoint\(", rf"EndPoint\((?:host=)?['\"]?{_NAME}['\"]?, ?(?:port=)?\d"),
    (rf"\.(?i:{_ZONES})(?:[^\w-]|$)",
     rf"(?<![\w.@/-])([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?i:{_ZONES}))(?![\w-]|\.\w)"),
)  # fmt: skip
_CODE = re.compile(
    r"\.(?:java|scala|kt|py|go|js|ts|rs|c|cc|cpp|log|gz|tgz|tar|zip|jar|so|yml|yaml)$"
)
_PACKAGES = frozenset({"org", "com", "net", "io", "java", "javax", "sun", "jdk", "scala", "kafka"})
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CLIENTS = (
    (r"(?i:(?:client|group|transactional|application|instance)[._]?id)",
     (r"(?i:client|group|transactional|application|instance)(?i:[._]?id)"
      r"\s{0,2}[=:]\s{0,2}['\"]?([^\s,;)\]}'\"][^,;)\]}'\"\n]*)")),
    (r"thread \| ", r"thread \| ([^\]\n]+)\]"),
    (_UUID, rf"(?<![\w.-])(\w[\w.-]*)-{_UUID}"),
    ("GroupId|[Gg]roup",
     rf"(?:GroupId|\[Group|\b(?:for|of|joins|rebalance|Stabilized) group) ['\"]?{_NAME}"),
)  # fmt: skip
_TOPICS = (
    ("[Tt]opics?",
     rf"[Tt]opics?(?:[Nn]ame)?['\"]?(?: |=|: ?| ?= ?)['\"\[({{]{{0,2}}{_NAME}(?=[^\w(])"),
    ("[Pp]artition",
     r"(?:[Pp]artitions?|[Tt]opic-?[Pp]artition)[ =(\[:'\"]{1,3}([A-Za-z_][\w.-]*)-\d+\b"),
    # one of a list: [orders-0, orders-1], {orders-0=..., Map(orders-0 -> ...
    (r"-[0-9]+(?:[,)\]}=:]| ->)", r"[\[({,] ?([A-Za-z_][\w.-]*)-\d{1,6}(?=[,)\]}=:]| ->)"),
    (r"/[\w.-]*-[0-9]", r"/([A-Za-z_][\w.-]*)-\d{1,6}(?=[/,\s)\]]|$)"),
)  # fmt: skip
# The parts of a distinguished name may hold blanks; a sentence that goes on is none of them.
_PART = r"[^\s,=)\]}\"]+(?: (?!is |was |has |from |on |to |for |in |at )[^\s,=)\]}\"]+(?!=))*"
_DN = rf"(?:CN|OU|O|L|ST|S|C|DC|UID|E|T|EMAILADDRESS|SERIALNUMBER|STREET)={_PART}"
_PRINCIPALS = (
    ("[A-Z]=", rf"({_DN}(?:, ?{_DN})*)"),
    ("(?:CN|UID|E|EMAILADDRESS)=", rf"(?:CN|UID|E|EMAILADDRESS)=({_PART})"),
    ("(?:User|Group|Role|Account):",
     r"\b(?:User|Group|Role|ServiceAccount):(?![A-Z]{1,12}=)([^\s,;:)\]}'\"\\]+)"),
    (r"(?i:principal|user)[\w. ]*['\"]?\s*[=:]",
     (r"(?i:principal(?:[._ ]?name)?|user(?:[._ ]?name)?)['\"]?\s{0,2}[=:]\s{0,2}['\"]?"
      r"(?:User:)?(?![A-Z]{1,12}=)([^\s,;:)\]}'\"=\\]+)")),
    ("(?i:user) ['\"]", r"(?i:user) ['\"]([^'\"\n]+)['\"]"),
    # alice@corp.com, kafka/host@REALM
    (r"\w@[A-Za-z0-9]",
     (r"(?<![\w.@/+-])((?=[\w.+/-]*[A-Za-z])[\w.+-]+(?:/[\w.-]+)?@"
      r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}|[A-Z][A-Z0-9.-]{2,}))")),
)  # fmt: skip
_NOBODY = frozenset({"anonymous", "null", "none", "*", "unknown", "default"})


def find_names(texts: pa.Array) -> Iterator[tuple[str, str]]:
    """Yield the class and the name of what texts tell of."""
    for name in _found(_HOSTS, texts):
        yield from _host(name)
    for name in _found(_CLIENTS, texts):
        if not is_common(name) and name.lower() not in _NOBODY:
            yield "clients", name.strip()
    for name in _found(_TOPICS, texts):
        if not is_common(name) and not is_internal(name):
            yield "topics", name
    for name in _found(_PRINCIPALS, texts):
        if name.lower() not in _NOBODY:
            yield "principals", name


def _found(patterns: Iterable[tuple[str, str]], texts: pa.Array) -> set[str]:
    found: set[str] = set()
    for question, pattern in patterns:
        maybe = texts.filter(pc.match_substring_regex(texts, question))
        told = re.compile(pattern)
        for text in maybe.to_pylist():
            found.update(one[1] for one in told.finditer(text))
    return found


def _host(name: str) -> Iterator[tuple[str, str]]:
    labels = name.split(".")
    is_code = _CODE.search(name) or (labels[0].lower() in _PACKAGES and len(labels) > 1)
    if is_kept_host(name) or is_code or not any(mark.isalpha() for mark in name):
        return
    if len(labels) == 1:
        if not is_word(name):
            yield "hosts", name
        return
    yield "hosts", name
    # A host is often called by its first label alone, and others by the same domain.
    if not is_word(labels[0]) and any(not mark.isalpha() for mark in labels[0]):
        yield "hosts", labels[0]
    if len(labels) > 2:
        yield "hosts", ".".join(labels[1:])
