"""Finds names of hosts, clients, topics and principals in text, and tells them from common words.

Common words come from the rules, which hold the fixed text of every known line: a topic may be
called "broker", and the text is full of brokers. Addresses are told from times, versions and names
of classes.
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
# Words that are common in the names of files, threads and folders.
_COMMON_WORDS = frozenset({
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
# Topics that Kafka, Connect and the Schema Registry create for themselves.
_INTERNAL_TOPICS = frozenset({
    "__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state",
    "__remote_log_metadata", "@metadata", "_schemas", "connect-configs", "connect-offsets",
    "connect-status",
})  # fmt: skip


@functools.cache
def _kafka_words() -> frozenset[str]:
    words = set(_COMMON_WORDS)
    for rule in load_rule_set().rules:
        texts = [*rule.loggers]
        for wording in rule.wordings:
            texts += wording.template.literals
            texts += wording.each.template.literals if wording.each else ()
        for text in texts:
            words.update(word.lower() for word in (*_WORD.findall(text), *_TOKEN.findall(text)))
    return frozenset(words)


def is_kafka_word(name: str) -> bool:
    """Return True if a name is a word of Kafka's, or too short to tell from one."""
    return len(name) < 3 or name.isdecimal() or name.lower() in _kafka_words() or is_node(name)


def is_made_of_kafka_words(name: str) -> bool:
    """Return True if all words in a name are Kafka's: data-plane-kafka-request-handler-3."""
    return is_kafka_word(name) or all(word.lower() in _kafka_words() for word in words_in(name))


def is_node(name: str) -> bool:
    """Return True if a name is one that this program gives to nodes: broker-1."""
    return _NODE.fullmatch(name) is not None


def is_internal(topic: str) -> bool:
    """Return True if a topic is not one of the users."""
    return topic in _INTERNAL_TOPICS


def words_in(name: str) -> list[str]:
    """Return the runs of letters in a name."""
    return _WORD.findall(name)


def split_member(name: str) -> tuple[str, str]:
    """Split the id of a group member into the name of its client and the random rest."""
    match = _MEMBER.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


_IPV4 = re.compile(r"(?<![A-Za-z0-9.])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9]|\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?:%\w+)?(?![\w:])"
)
_DIGITS = re.compile(r"\d\.\d")
# Names that clouds give to hosts: ip-10-0-0-1.
_DASHED_IPV4 = re.compile(r"(?<![A-Za-z0-9])(ip|ec2)-((?:\d{1,3}-){3}\d{1,3})(?![A-Za-z0-9])")
_LOCAL_HOSTS = frozenset(
    {"localhost", "localhost.localdomain", "ip6-localhost", "null", "unresolved"}
)


def replace_addresses(text: str, pseudonym: Callable[[str], str]) -> str:
    """Replace IP addresses by pseudonyms; those of the machine itself stay."""

    def replace(match: re.Match[str]) -> str:
        address, _, zone = match[0].partition("%")
        if not _is_address(address):
            return match[0]
        name = pseudonym(ipaddress.ip_address(address).compressed)
        return f"{name}%{zone}" if zone else name

    if _DIGITS.search(text):
        text = _IPV4.sub(replace, text)
    if "::" in text or text.count(":") > 6:
        text = _IPV6.sub(replace, text)
    if "ip-" in text or "ec2-" in text:
        text = _DASHED_IPV4.sub(lambda match: pseudonym(match[2].replace("-", ".")), text)
    return text


def _is_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return not (mapped.is_loopback or mapped.is_unspecified)


# A name starts only after a character that is not part of one, so that nothing is tried twice.
_NAME = r"(?<![\w.-])([A-Za-z0-9_](?:[\w.-]*\w)?)"
_PORT = r"(?:2181|2182|2183|2888|3888|80[0-9][0-9]|9[0-9]{3}|[1-5]9[0-9]{3})"
_TOP_LEVEL_DOMAINS = (
    "com|net|org|io|edu|gov|mil|int|info|biz|cloud|dev|app|local|internal|intranet|lan|corp|home|"
    "private|localdomain|invalid|test|example|svc|arpa|aws|azure|gcp|de|uk|fr|nl|eu|us|ca|au|jp|cn|"
    "br|ru|ch|at|se|no|pl|it|es|be|dk|fi|cz|pt|ie|nz|kr|sg|hk|tw|za|mx|ua|tr|gr|hu|ro|il|ae"
)
# Each pattern after a cheap one, for RE2, that matches every text that can match it.
_HOSTS = (
    # host/1.2.3.4:9092, the format of Java
    (r"\w/(?:<un|[0-9]|\[?[0-9a-fA-F]*:)",
     rf"{_NAME}/(?:<unresolved>|\d{{1,3}}(?:\.\d{{1,3}}){{3}}|\[?[0-9a-fA-F]*:[0-9a-fA-F]*:)"),
    ("://", rf"://(?:[^\s/@\"']*@)?{_NAME}"),
    # only a name, but with a port of Kafka or ZooKeeper, or a name that cannot be a word
    (rf":{_PORT}", rf"{_NAME}:{_PORT}(?![\w.:])"),
    (r":[0-9]+ \(id: ",
     r"(?<![\w.-])((?=[\w.]*[\d-])[A-Za-z][\w-]*(?:\.[\w-]+)*):\d{4,5} \(id: "),
    ("(?i:host)", rf"(?i:host(?:[._ ]?name)?)['\"]?\s{{0,2}}[=:]\s{{0,2}}['\"]?{_NAME}"),
    ("(?i:unknownhost|resolve|lookup|getaddrinfo|no such host)",
     (rf"(?i:unknownhost\w*|resolve[sd]?|lookup|getaddrinfo|no such host)\W{{1,3}}"
      rf"(?i:(?:server|host|hostname|address|url|broker) )?['\"]?{_NAME}")),
    (r"EndPoint\(", rf"EndPoint\((?:host=)?['\"]?{_NAME}['\"]?, ?(?:port=)?\d"),
    (rf"\.(?i:{_TOP_LEVEL_DOMAINS})(?:[^\w-]|$)",
     rf"(?<![\w.@/-])([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?i:{_TOP_LEVEL_DOMAINS}))(?![\w-]|\.\w)"),
)  # fmt: skip
_CODE = re.compile(
    r"\.(?:java|scala|kt|py|go|js|ts|rs|c|cc|cpp|log|gz|tgz|tar|zip|jar|so|yml|yaml)$"
)
_JAVA_PACKAGES = frozenset(
    {"org", "com", "net", "io", "java", "javax", "sun", "jdk", "scala", "kafka"}
)
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MEMBER = re.compile(rf"(.*)(-{_UUID})", re.DOTALL)
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
    # an item of a list: [orders-0, orders-1], {orders-0=..., Map(orders-0 -> ...
    (r"-[0-9]+(?:[,)\]}=:]| ->)", r"[\[({,] ?([A-Za-z_][\w.-]*)-\d{1,6}(?=[,)\]}=:]| ->)"),
    (r"/[\w.-]*-[0-9]", r"/([A-Za-z_][\w.-]*)-\d{1,6}(?=[/,\s)\]]|$)"),
)  # fmt: skip
# Parts of a distinguished name may hold blanks; the rest of a sentence does not belong to it.
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
_PLACEHOLDERS = frozenset({"anonymous", "null", "none", "*", "unknown", "default"})


def find_names(texts: pa.Array) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of the names in texts."""
    for name in _search(_HOSTS, texts):
        yield from (("hosts", host) for host in _host_names(name))
    for name in _search(_CLIENTS, texts):
        if not is_made_of_kafka_words(name) and name.lower() not in _PLACEHOLDERS:
            yield "clients", name.strip()
    for name in _search(_TOPICS, texts):
        if not is_made_of_kafka_words(name) and not is_internal(name):
            yield "topics", name
    for name in _search(_PRINCIPALS, texts):
        if name.lower() not in _PLACEHOLDERS:
            yield "principals", name


def _search(patterns: Iterable[tuple[str, str]], texts: pa.Array) -> set[str]:
    found: set[str] = set()
    for cheap, pattern in patterns:
        candidates = texts.filter(pc.match_substring_regex(texts, cheap))
        compiled = re.compile(pattern)
        for text in candidates.to_pylist():
            found.update(match[1] for match in compiled.finditer(text))
    return found


def _host_names(name: str) -> Iterator[str]:
    """Yield a host, its first label, and its domain, unless the name is code or a local host."""
    labels = name.split(".")
    is_code = _CODE.search(name) or (labels[0].lower() in _JAVA_PACKAGES and len(labels) > 1)
    if name.lower() in _LOCAL_HOSTS or is_code or not any(char.isalpha() for char in name):
        return
    if len(labels) > 1 or not is_kafka_word(name):
        yield name
    # A host is often called by its first label alone, and others by the same domain.
    has_other_chars = any(not char.isalpha() for char in labels[0])
    if len(labels) > 1 and has_other_chars and not is_kafka_word(labels[0]):
        yield labels[0]
    if len(labels) > 2:
        yield ".".join(labels[1:])
