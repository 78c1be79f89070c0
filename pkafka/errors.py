"""Kafka's error codes and the roots of every exception that pkafka raises."""

from enum import IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """The codes that travel in responses; names and numbers are Kafka's."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127

    @property
    def retriable(self) -> bool:
        """Whether Kafka's clients try again after this code."""
        return self in _RETRIABLE

    @property
    def java_name(self) -> str:
        """The exception class that Java tools print for this code, without its package."""
        return _JAVA_NAMES[self]

    @property
    def message(self) -> str:
        """One sentence for a person, for when the server gave none of its own."""
        return _MESSAGES.get(self) or self.name.replace("_", " ").capitalize() + "."


# Python 3.11 finds a member of an enum through a descriptor written in Python, ten times slower than an attribute;
# from 3.12 on the class holds the members themselves, as here.
for _member in ErrorCode:
    type.__setattr__(ErrorCode, _member.name, _member)

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)

_JAVA_NAMES: Final[dict[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.NONE: "",
    ErrorCode.OFFSET_OUT_OF_RANGE: "OffsetOutOfRangeException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "UnknownTopicOrPartitionException",
    ErrorCode.INVALID_FETCH_SIZE: "InvalidFetchSizeException",
    ErrorCode.LEADER_NOT_AVAILABLE: "LeaderNotAvailableException",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "NotLeaderOrFollowerException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.BROKER_NOT_AVAILABLE: "BrokerNotAvailableException",
    ErrorCode.REPLICA_NOT_AVAILABLE: "ReplicaNotAvailableException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "CoordinatorLoadInProgressException",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "CoordinatorNotAvailableException",
    ErrorCode.NOT_COORDINATOR: "NotCoordinatorException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.NOT_ENOUGH_REPLICAS: "NotEnoughReplicasException",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "NotEnoughReplicasAfterAppendException",
    ErrorCode.INVALID_REQUIRED_ACKS: "InvalidRequiredAcksException",
    ErrorCode.ILLEGAL_GENERATION: "IllegalGenerationException",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "InconsistentGroupProtocolException",
    ErrorCode.INVALID_GROUP_ID: "InvalidGroupIdException",
    ErrorCode.UNKNOWN_MEMBER_ID: "UnknownMemberIdException",
    ErrorCode.INVALID_SESSION_TIMEOUT: "InvalidSessionTimeoutException",
    ErrorCode.REBALANCE_IN_PROGRESS: "RebalanceInProgressException",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "InvalidCommitOffsetSizeException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.INVALID_TIMESTAMP: "InvalidTimestampException",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "UnsupportedSaslMechanismException",
    ErrorCode.ILLEGAL_SASL_STATE: "IllegalSaslStateException",
    ErrorCode.UNSUPPORTED_VERSION: "UnsupportedVersionException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_PARTITIONS: "InvalidPartitionsException",
    ErrorCode.INVALID_REPLICATION_FACTOR: "InvalidReplicationFactorException",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "InvalidReplicaAssignmentException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.NOT_CONTROLLER: "NotControllerException",
    ErrorCode.INVALID_REQUEST: "InvalidRequestException",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "UnsupportedForMessageFormatException",
    ErrorCode.POLICY_VIOLATION: "PolicyViolationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_EPOCH: "InvalidProducerEpochException",
    ErrorCode.INVALID_TXN_STATE: "InvalidTxnStateException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.CONCURRENT_TRANSACTIONS: "ConcurrentTransactionsException",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "TransactionCoordinatorFencedException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
    ErrorCode.SECURITY_DISABLED: "SecurityDisabledException",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "OperationNotAttemptedException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.LOG_DIR_NOT_FOUND: "LogDirNotFoundException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.UNKNOWN_PRODUCER_ID: "UnknownProducerIdException",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "ReassignmentInProgressException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "DelegationTokenNotFoundException",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "DelegationTokenOwnerMismatchException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "DelegationTokenExpiredException",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "InvalidPrincipalTypeException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.GROUP_ID_NOT_FOUND: "GroupIdNotFoundException",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "FetchSessionIdNotFoundException",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "InvalidFetchSessionEpochException",
    ErrorCode.LISTENER_NOT_FOUND: "ListenerNotFoundException",
    ErrorCode.TOPIC_DELETION_DISABLED: "TopicDeletionDisabledException",
    ErrorCode.FENCED_LEADER_EPOCH: "FencedLeaderEpochException",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "UnknownLeaderEpochException",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "UnsupportedCompressionTypeException",
    ErrorCode.STALE_BROKER_EPOCH: "StaleBrokerEpochException",
    ErrorCode.OFFSET_NOT_AVAILABLE: "OffsetNotAvailableException",
    ErrorCode.MEMBER_ID_REQUIRED: "MemberIdRequiredException",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "PreferredLeaderNotAvailableException",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "GroupMaxSizeReachedException",
    ErrorCode.FENCED_INSTANCE_ID: "FencedInstanceIdException",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "EligibleLeadersNotAvailableException",
    ErrorCode.ELECTION_NOT_NEEDED: "ElectionNotNeededException",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "NoReassignmentInProgressException",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "GroupSubscribedToTopicException",
    ErrorCode.INVALID_RECORD: "InvalidRecordException",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "UnstableOffsetCommitException",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "ThrottlingQuotaExceededException",
    ErrorCode.PRODUCER_FENCED: "ProducerFencedException",
    ErrorCode.RESOURCE_NOT_FOUND: "ResourceNotFoundException",
    ErrorCode.DUPLICATE_RESOURCE: "DuplicateResourceException",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "UnacceptableCredentialException",
    ErrorCode.INCONSISTENT_VOTER_SET: "InconsistentVoterSetException",
    ErrorCode.INVALID_UPDATE_VERSION: "InvalidUpdateVersionException",
    ErrorCode.FEATURE_UPDATE_FAILED: "FeatureUpdateFailedException",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "PrincipalDeserializationException",
    ErrorCode.SNAPSHOT_NOT_FOUND: "SnapshotNotFoundException",
    ErrorCode.POSITION_OUT_OF_RANGE: "PositionOutOfRangeException",
    ErrorCode.UNKNOWN_TOPIC_ID: "UnknownTopicIdException",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "DuplicateBrokerRegistrationException",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "BrokerIdNotRegisteredException",
    ErrorCode.INCONSISTENT_TOPIC_ID: "InconsistentTopicIdException",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "InconsistentClusterIdException",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "TransactionalIdNotFoundException",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "FetchSessionTopicIdException",
    ErrorCode.INELIGIBLE_REPLICA: "IneligibleReplicaException",
    ErrorCode.NEW_LEADER_ELECTED: "NewLeaderElectedException",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "OffsetMovedToTieredStorageException",
    ErrorCode.FENCED_MEMBER_EPOCH: "FencedMemberEpochException",
    ErrorCode.UNRELEASED_INSTANCE_ID: "UnreleasedInstanceIdException",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "UnsupportedAssignorException",
    ErrorCode.STALE_MEMBER_EPOCH: "StaleMemberEpochException",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "MismatchedEndpointTypeException",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "UnsupportedEndpointTypeException",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "UnknownControllerIdException",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "UnknownSubscriptionIdException",
    ErrorCode.TELEMETRY_TOO_LARGE: "TelemetryTooLargeException",
    ErrorCode.INVALID_REGISTRATION: "InvalidRegistrationException",
    ErrorCode.TRANSACTION_ABORTABLE: "TransactionAbortableException",
    ErrorCode.INVALID_RECORD_STATE: "InvalidRecordStateException",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "ShareSessionNotFoundException",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "InvalidShareSessionEpochException",
    ErrorCode.FENCED_STATE_EPOCH: "FencedStateEpochException",
    ErrorCode.INVALID_VOTER_KEY: "InvalidVoterKeyException",
    ErrorCode.DUPLICATE_VOTER: "DuplicateVoterException",
    ErrorCode.VOTER_NOT_FOUND: "VoterNotFoundException",
}

_MESSAGES: Final[dict[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server hit an unexpected error; its log has the details.",
    ErrorCode.NONE: "No error.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset is outside the range that this partition holds.",
    ErrorCode.CORRUPT_MESSAGE: "The batch is damaged: its checksum, its size or its content is wrong.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "The broker has no delegation tokens: delegation.token.secret.key is not set there."
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "There is no delegation token with this HMAC.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Only a delegation token's owner and its renewers may do that.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Delegation tokens are for clients that have logged in, or have a certificate, and did not log in by a token."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "A delegation token for another owner takes the right CreateTokens on that user."
    ),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Renewers of a delegation token have to be users, as User:alice.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker is not the replica that the request needs.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.MESSAGE_TOO_LARGE: "The batch is larger than the server accepts (max.message.bytes).",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is not legal.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "The batch is larger than a segment of the log (segment.bytes).",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas asks for.",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "Written, but to fewer replicas than min.insync.replicas asks for.",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or -1 (all).",
    ErrorCode.INVALID_TIMESTAMP: "A timestamp lies outside the range that the topic accepts.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists already.",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions is not legal.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is below 1 or above the number of live brokers.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replica assignment is not legal.",
    ErrorCode.INVALID_CONFIG: "A configuration key or value is not legal.",
    ErrorCode.NOT_CONTROLLER: "This broker is not the active controller.",
    ErrorCode.INVALID_REQUEST: "The request contradicts itself or does not fit its version.",
    ErrorCode.POLICY_VIOLATION: "The request breaks a policy of this cluster.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The producer's sequence number leaves a gap or goes back.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The batch repeats a sequence number that is no longer remembered.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "Producer attempted to produce with an old epoch.",
    ErrorCode.PRODUCER_FENCED: (
        "There is a newer producer with the same transactionalId which fences the current one."
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "The transaction timeout is larger than the maximum value allowed by the broker (as configured by "
        "transaction.max.timeout.ms)."
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.INVALID_TXN_STATE: "The transaction is not in a state that allows this.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The log directory of this partition failed.",
    ErrorCode.LOG_DIR_NOT_FOUND: "No log directory of this broker has this path.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "The fetch session is not known here; start a new one.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session epoch is not the next one; start a new session.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Topics cannot be deleted: delete.topic.enable is false.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch of the request is older than that of the partition.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "The leader epoch of the request is newer than that of the partition.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "The client cannot read the compression of this partition.",
    ErrorCode.INVALID_RECORD: "A record breaks the rules of its topic or of its format.",
    ErrorCode.UNKNOWN_TOPIC_ID: "No topic has this id.",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id is not the one of the log.",
}


class PkafkaError(Exception):
    """The root of all of pkafka's own exceptions."""


class ApiError(PkafkaError):
    """An expected failure with a Kafka error code; a server answers it, a client raises it.

    Args:
        code: what went wrong, in Kafka's terms.
        message: what to tell the person; the code's own sentence when left out.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.message)
        self.code = code
        self.message = message or code.message

    @property
    def retriable(self) -> bool:
        """Whether trying again can help."""
        return self.code.retriable


class ProtocolError(PkafkaError):
    """The peer sent bytes that are no legal message; its connection is closed. Nothing else may escape a decoder."""


class ConfigError(PkafkaError):
    """A configuration key or value is wrong.

    Args:
        key: the configuration key.
        problem: what is wrong and what is allowed, for a person.
        value: the offending value; left out when the key holds a secret.
    """

    def __init__(self, key: str, problem: str, value: object = None) -> None:
        super().__init__(f"{key}: {problem}" if value is None else f"{key}={value}: {problem}")
        self.key = key
        self.problem = problem
        self.value = value


class StorageError(PkafkaError):
    """The disk refused: a log directory is offline or a file is damaged beyond repair."""
