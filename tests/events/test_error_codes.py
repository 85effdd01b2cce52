"""Every spelling of an error that logs hold has one name."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.errors import RuleError
from forensics.events.error_codes import canonical_errors, load_error_names
from forensics.lib.yaml_with_lines import load_yaml, rule_files

WRAPPED = "java.util.concurrent.ExecutionException:"
SARAMA = (
    "kafka server: Tried to send a message to a replica that is not the leader for some partition."
    " Your metadata is out of date"
)
WRITTEN = {
    "NOT_LEADER_OR_FOLLOWER": [
        "NOT_LEADER_OR_FOLLOWER",
        "not_leader_or_follower",
        "NOT_LEADER_FOR_PARTITION",
        "Errors.NOT_LEADER_FOR_PARTITION",
        "NotLeaderOrFollowerException",
        "org.apache.kafka.common.errors.NotLeaderOrFollowerException",
        "org.apache.kafka.common.errors.NotLeaderOrFollowerException: For requests intended only",
        "kafka.common.NotLeaderForPartitionException",
        f"{WRAPPED} kafka.common.NotLeaderForPartitionException: This server is not the leader.",
        "NotLeaderForPartitionError",
        "<class 'kafka.errors.NotLeaderForPartitionError'>",
        "[Error 6] NotLeaderForPartitionError",
        "[Error 6] NotLeaderForPartitionError: ('orders', 3).",
        "[6] Not Leader For Partition: the client attempted to send messages to a replica",
        "Broker: Not leader for partition",
        "Some(Broker: Not leader for partition)",
        'KafkaError{code=NOT_LEADER_FOR_PARTITION,val=6,str="Broker: Not leader for partition"}',
        SARAMA,
        f"{SARAMA}.",
        f"kafka: Failed to produce message to topic orders: {SARAMA}",
        "NOT_LEADER_FOR_PARTITION[orders{3}]",
        "NOT_LEADER_FOR_PARTITION: This server is not the leader for that topic-partition.",
        "KafkaJSProtocolError: This server is not the leader for that topic-partition",
    ],
    "NOT_COORDINATOR": [
        "NotCoordinatorForGroupError",
        "[Error 16] NotCoordinatorForGroupError.",
        "kafka.common.NotCoordinatorForConsumerException",
        "This is not the correct coordinator.",
        "kafka server: Request was for a consumer group that is not coordinated by this broker.",
    ],
    "COORDINATOR_LOAD_IN_PROGRESS": ["GROUP_LOAD_IN_PROGRESS", "GroupLoadInProgressError"],
    "COORDINATOR_NOT_AVAILABLE": ["GroupCoordinatorNotAvailableException", "[15] : no title"],
    "CORRUPT_MESSAGE": [
        "CorruptRecordException",
        "kafka.message.InvalidMessageException",
        "INVALID_MSG",
    ],
    "MESSAGE_TOO_LARGE": ["RecordTooLargeException", "Broker: Message size too large"],
    "TOPIC_ALREADY_EXISTS": ["TopicExistsException", "Topic 'orders': TOPIC_ALREADY_EXISTS"],
    "TOPIC_AUTHORIZATION_FAILED": [
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized: [a]",
        "Not authorized to access topics: [Topic authorization failed.]",
    ],
    "REQUEST_TIMED_OUT": [
        "REQUEST_TIMED_OUT. Error Message: Disconnected from node 3 due to timeout",
        "org.apache.kafka.common.errors.TimeoutException: The request timed out.",
        "Broker: Request timed out",
    ],
    "TIMEOUT": [
        "org.apache.kafka.common.errors.TimeoutException",
        "org.apache.kafka.common.errors.TimeoutException: Topic orders not present.",
        "KafkaTimeoutError: Failed to update metadata after 60.0 secs.",
    ],
    "DISCONNECTED": [
        "org.apache.kafka.common.errors.DisconnectException",
        "kafka: broker not connected",
    ],
    "NO_BROKERS_AVAILABLE": [
        "NoBrokersAvailable",
        "kafka: client has run out of available brokers to talk to: dial tcp: i/o timeout",
    ],
    "NOT_CONTROLLER": ["NotControllerException: No controller appears to be active."],
    "_TRANSPORT": [
        "_TRANSPORT",
        "Local_Transport",
        "Local: Broker transport failure",
        "Local: Broker transport failure.",
        'KafkaError{code=_TRANSPORT,val=-195,str="Local: Broker transport failure"}',
    ],
    "_TIMED_OUT": ["Local: Timed out", "Local_TimedOut"],
    "_MSG_TIMED_OUT": ["Local: Message timed out"],
    "_ALL_BROKERS_DOWN": ["Local: All broker connections are down"],
    "_MAX_POLL_EXCEEDED": [
        "Local: Maximum application poll interval (max.poll.interval.ms) exceeded"
    ],
    "_UNKNOWN_BROKER": ["Local: Unknown broker"],
    "UNKNOWN_SERVER_ERROR": ["UNKNOWN", "UnknownServerException", "Unknown broker error"],
    "NONE": ["NONE", "Success", "NO_ERROR"],
}
UNKNOWN = [
    "java.net.ConnectException: Connection refused",
    "java.io.IOException: Connection to 2 was disconnected before the response was read",
    "[Errno 111] ECONNREFUSED",
    "dial tcp 10.0.0.1:9092: connect: connection refused",
    "EOF",
    "Error",
    "...",
    "",
    "a host: unknown",
    "Timed out",
]


@pytest.mark.parametrize(("name", "written"), [(n, one) for n in WRITTEN for one in WRITTEN[n]])
def test_a_spelling_has_one_name(name: str, written: str) -> None:
    names, _ = canonical_errors(pa.array([written]))
    assert names.to_pylist() == [name]


@pytest.mark.parametrize("written", UNKNOWN)
def test_what_is_unknown_stays_as_it_is_written(written: str) -> None:
    names, retriable = canonical_errors(pa.array([f" {written}\n"]))
    assert names.to_pylist() == [written]
    assert retriable.to_pylist() == [None]


def test_kafka_says_what_may_be_tried_again() -> None:
    raw = pa.array(
        ["NotLeaderForPartitionError", "TopicExistsException", None, "NONE", "TOPIC_EXISTS", "EOF"]
    )
    names, retriable = canonical_errors(raw)
    assert names.type == pa.string()
    assert retriable.type == pa.bool_()
    assert names.null_count == 1
    assert retriable.to_pylist() == [True, False, None, None, False, None]


@pytest.mark.parametrize("empty", [pa.array([], pa.string()), pa.array([None], pa.string())])
def test_nothing_stays_nothing(empty: pa.Array) -> None:
    names, retriable = canonical_errors(empty)
    assert names.equals(empty)
    assert len(retriable) == retriable.null_count == len(empty)


def test_every_name_and_every_spelling_is_read() -> None:
    (path,) = (one for one in rule_files(".") if one.name == "errors.yaml")
    for error in load_yaml(path)["errors"]:
        raw = pa.array([error["name"], *error.get("says", [])], pa.string())
        names, retriable = canonical_errors(raw)
        assert set(names.to_pylist()) == {error["name"]}
        assert set(retriable.to_pylist()) == {error.get("retriable")}


def test_the_protocol_has_no_gap() -> None:
    codes = sorted(code for code in load_error_names().codes if code >= -1)
    assert codes == list(range(-1, 134))


def test_what_fresh_metadata_helps_may_be_tried_again() -> None:
    (path,) = (one for one in rule_files(".") if one.name == "errors.yaml")
    stale = [one for one in load_yaml(path)["errors"] if one.get("metadata")]
    assert len([one for one in stale if "code" in one]) == 13
    assert all(one["retriable"] for one in stale)


KNOWN = [spelling for spellings in WRITTEN.values() for spelling in spellings]


@given(
    st.lists(
        st.none()
        | st.text()
        | st.builds("{}{}{}".format, st.text(), st.sampled_from(KNOWN), st.text())
    )
)
def test_a_name_keeps_its_name(written: list[str | None]) -> None:
    names, retriable = canonical_errors(pa.array(written, pa.string()))
    again, still = canonical_errors(names)
    assert again.equals(names)
    assert still.equals(retriable)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("errors: [{name: A, code: 1}, {name: B, code: 1}]", "1 is the code of A already"),
        ("errors: [{name: A_B}, {name: C, says: [aB]}]", "C has a spelling of A_B"),
        ("errors: [{name: A, say: [b]}]", "unknown key 'say'"),
        ("errors: [{code: 7}]", "needs a name"),
        ('errors: [{name: A, says: ["..."]}]', "A: no letters"),
    ],
)
def test_a_broken_list_says_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "errors.yaml"
    path.write_text(text)
    with pytest.raises(RuleError) as caught:
        load_error_names(path)
    assert says in str(caught.value.problems[0])
