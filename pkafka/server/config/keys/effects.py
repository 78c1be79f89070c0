"""Which accepted configuration keys do something, and the test that shows it; and which cannot, and why.

Every key stands in exactly one of the three tables of its kind; a test holds that, and that the named test exists.
A change that makes a key work moves the key.
"""

from collections.abc import Mapping
from typing import Final

_ACLS: Final = "tests/e2e/test_acls.py::"
_BAD_INPUT: Final = "tests/e2e/test_bad_input.py::"
_CLEANER: Final = "tests/unit/server/compaction/test_log_cleaner.py::"
_CLUSTER: Final = "tests/faults/test_cluster.py::"
_MOVES: Final = "tests/e2e/test_directory_moves.py::"
_OFFICE: Final = "tests/unit/server/controller/test_office.py::"
_REPLICATION: Final = "tests/e2e/test_replication.py::"
_COMMITS: Final = "tests/e2e/test_commits_and_replicas.py::"
_CHANNELS: Final = "tests/unit/server/control/test_cluster_channels.py::"
_COMPACTION: Final = "tests/e2e/test_compaction.py::"
_CONFIG: Final = "tests/unit/server/config/test_broker_config.py::"
_COORDINATOR: Final = "tests/unit/server/groups/test_coordinator.py::"
_ENCRYPTION: Final = "tests/unit/server/security/test_encryption.py::"
_FETCHER: Final = "tests/unit/server/replication/test_fetcher.py::"
_GROUPS: Final = "tests/e2e/test_groups.py::"
_IDENTITY: Final = "tests/unit/server/control/test_identity.py::"
_SASL: Final = "tests/e2e/test_sasl.py::"
_SASL_BETWEEN: Final = "tests/e2e/test_sasl_between_brokers.py::"
_OWN_TOKENS: Final = "tests/unit/server/cluster/test_broker_tokens.py::"
_SASL_RULES: Final = "tests/unit/server/config/test_sasl.py::"
_DELEGATION: Final = "tests/e2e/test_delegation_tokens.py::"
_DELEGATION_RULES: Final = "tests/unit/server/security/test_delegation_tokens.py::"
_TOKENS: Final = "tests/e2e/test_bearer_tokens.py::"
_LIMITS: Final = "tests/e2e/test_limits.py::"
_LINK: Final = "tests/unit/server/cluster/test_broker_link.py::"
_LISTENER: Final = "tests/unit/net/test_listener.py::"
_LISTENER_TLS: Final = "tests/unit/server/config/test_listener_tls.py::"
_LIVE: Final = "tests/e2e/test_configs_live.py::"
_PASSWORDS: Final = "tests/unit/server/config/test_passwords.py::"
_PROCESSES: Final = "tests/faults/test_deaths.py::"
_SETTINGS: Final = "tests/e2e/test_broker_settings.py::"
_PRODUCE: Final = "tests/unit/server/handlers/test_produce_in_transactions.py::"
_METRICS_ACCESS: Final = "tests/unit/server/metrics/test_access.py::"
_MUTATIONS: Final = "tests/unit/server/limits/test_mutation_quotas.py::"
_QUOTA: Final = "tests/unit/server/limits/test_replication_quota.py::"
_THROTTLES: Final = "tests/e2e/test_replication_throttles.py::"
_TO_CONTROLLER: Final = "tests/unit/server/control/test_to_controller.py::"
_TO_ZOOKEEPER: Final = "tests/e2e/test_tls_to_zookeeper.py::"
_TRANSACTIONS: Final = "tests/unit/server/transactions/test_coordinator.py::"
_TRANSACTION_SETTINGS: Final = "tests/e2e/test_transaction_settings.py::"
_TIMEOUTS: Final = "tests/interop/test_zookeeper_timeouts.py::"
_ZOOKEEPER: Final = "tests/unit/coordination/test_zookeeper.py::"
_WORKER_LOGS: Final = "tests/unit/server/replicas/test_worker_logs.py::"

_KRAFT: Final = "For KRaft and for the migration to it, which are not here."
_PKIX: Final = "Names an algorithm of Java's; OpenSSL checks certificates by the same rules (PKIX)."
_VERSIONS: Final = "Names what Java makes a context of; ssl.enabled.protocols says which versions are spoken."
_RANDOM: Final = "Names a source of chance of Java's; OpenSSL has its own."
_JAVA: Final = "Names classes of Java, which cannot be loaded."
_TICKETS: Final = "A broker reads tickets with its keytab and gets none itself, so none is renewed."
_RATES: Final = (
    "The page of metrics shows counters; the program that reads it makes rates and percentiles over time."
)
_THREADS: Final = (
    "Sizes a pool of threads that is not here; pkafka.workers is the number of processes that do the work."
)
_PURGATORY: Final = "What waits in a purgatory leaves it when it is answered, so there is nothing to purge."
_QUEUE: Final = "Nothing queues between reading a request and serving it."
_FORMAT: Final = "Records are kept in format 2 whatever it says, as since Kafka 3.0."

BROKER_EFFECTIVE: Final[Mapping[str, str]] = {
    "password.encoder.cipher.algorithm": _CONFIG
    + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    "password.encoder.iterations": _PASSWORDS + "test_how_passwords_are_encrypted",
    "password.encoder.key.length": _PASSWORDS + "test_how_passwords_are_encrypted",
    "password.encoder.keyfactory.algorithm": _PASSWORDS + "test_how_passwords_are_encrypted",
    "password.encoder.old.secret": _PASSWORDS
    + "test_passwords_of_the_old_secret_are_encrypted_anew_at_the_start",
    "password.encoder.secret": _PASSWORDS + "test_a_password_is_stored_encrypted_and_counts_in_the_clear",
    "ssl.allow.dn.changes": _ENCRYPTION
    + "test_a_certificate_for_another_name_counts_only_where_that_is_allowed",
    "ssl.allow.san.changes": _ENCRYPTION
    + "test_a_certificate_for_another_name_counts_only_where_that_is_allowed",
    "ssl.cipher.suites": _ENCRYPTION + "test_versions_and_suites",
    "ssl.client.auth": _ENCRYPTION + "test_whom_a_client_is_taken_for",
    "ssl.enabled.protocols": _ENCRYPTION + "test_versions_and_suites",
    "ssl.endpoint.identification.algorithm": _LINK
    + "test_the_certificate_of_another_broker_has_to_name_its_host",
    "ssl.engine.factory.class": _LISTENER_TLS + "test_what_cannot_be_is_refused_by_its_key",
    "ssl.key.password": _ENCRYPTION + "test_pem_text_in_the_settings",
    "ssl.keystore.certificate.chain": _ENCRYPTION + "test_pem_text_in_the_settings",
    "ssl.keystore.key": _ENCRYPTION + "test_pem_text_in_the_settings",
    "ssl.keystore.location": _ENCRYPTION + "test_stores_of_every_kind",
    "ssl.keystore.password": _ENCRYPTION + "test_stores_of_every_kind",
    "ssl.keystore.type": _ENCRYPTION + "test_stores_of_every_kind",
    "ssl.principal.mapping.rules": _ENCRYPTION + "test_whom_a_client_is_taken_for",
    "ssl.provider": _LISTENER_TLS + "test_what_cannot_be_is_refused_by_its_key",
    "ssl.truststore.certificates": _ENCRYPTION + "test_pem_text_in_the_settings",
    "ssl.truststore.location": _ENCRYPTION + "test_stores_of_every_kind",
    "ssl.truststore.password": _ENCRYPTION + "test_stores_of_every_kind",
    "ssl.truststore.type": _ENCRYPTION + "test_stores_of_every_kind",
    "zookeeper.ssl.cipher.suites": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.client.enable": _TO_ZOOKEEPER
    + "test_topics_are_made_also_after_the_control_process_was_killed",
    "zookeeper.ssl.crl.enable": _CONFIG + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    "zookeeper.ssl.enabled.protocols": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.endpoint.identification.algorithm": _TO_ZOOKEEPER
    + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.keystore.location": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.keystore.password": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.keystore.type": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.ocsp.enable": _CONFIG + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    "zookeeper.ssl.protocol": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.truststore.location": _TO_ZOOKEEPER
    + "test_a_zookeeper_that_is_not_trusted_is_told_with_the_reason",
    "zookeeper.ssl.truststore.password": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "zookeeper.ssl.truststore.type": _TO_ZOOKEEPER + "test_what_cannot_be_is_refused_by_its_key",
    "connection.failed.authentication.delay.ms": _SASL
    + "test_the_right_password_lets_a_client_in_and_no_other",
    "delegation.token.expiry.check.interval.ms": _DELEGATION + "test_a_token_ends_by_itself",
    "delegation.token.expiry.time.ms": _DELEGATION + "test_settings_say_how_long_a_token_lasts",
    "delegation.token.master.key": _DELEGATION_RULES + "test_settings_of_a_broker",
    "delegation.token.max.lifetime.ms": _DELEGATION + "test_settings_say_how_long_a_token_lasts",
    "delegation.token.secret.key": _DELEGATION + "test_a_token_lets_in_as_its_owner",
    "connections.max.reauth.ms": _SASL + "test_a_session_that_is_over_is_closed_at_its_next_request",
    "sasl.enabled.mechanisms": _SASL + "test_a_mechanism_that_a_listener_does_not_have",
    "sasl.jaas.config": _SASL + "test_the_right_password_lets_a_client_in_and_no_other",
    "sasl.mechanism.inter.broker.protocol": _SASL_BETWEEN + "test_records_are_replicated",
    "sasl.kerberos.principal.to.local.rules": _SASL_RULES + "test_what_kerberos_is_to_read",
    "sasl.kerberos.service.name": _SASL_RULES + "test_what_is_refused",
    "sasl.server.callback.handler.class": _TOKENS + "test_signed_tokens_let_their_users_in",
    "sasl.server.max.receive.size": _SASL
    + "test_a_frame_that_is_too_large_before_the_login_ends_the_connection",
    "sasl.oauthbearer.token.endpoint.url": _SASL_BETWEEN
    + "test_brokers_log_in_by_tokens_that_a_server_gives",
    "sasl.login.callback.handler.class": _SASL_RULES + "test_what_is_refused",
    "sasl.login.retry.backoff.ms": _OWN_TOKENS + "test_after_a_failure_the_server_has_a_pause",
    "sasl.login.retry.backoff.max.ms": _OWN_TOKENS + "test_after_a_failure_the_server_has_a_pause",
    **dict.fromkeys(
        (
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
        ),
        _OWN_TOKENS + "test_how_tokens_are_had",
    ),
    "sasl.oauthbearer.jwks.endpoint.url": _TOKENS + "test_signed_tokens_let_their_users_in",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _TOKENS + "test_keys_that_are_exchanged",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _TOKENS + "test_keys_come_late",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _TOKENS + "test_keys_come_late",
    **dict.fromkeys(
        (
            "sasl.oauthbearer.clock.skew.seconds",
            "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name",
        ),
        _SASL_RULES + "test_signed_tokens_and_their_rules",
    ),
    "alter.log.dirs.replication.quota.window.num": _MOVES + "test_the_windows_in_which_copying_is_measured",
    "alter.log.dirs.replication.quota.window.size.seconds": _MOVES
    + "test_the_windows_in_which_copying_is_measured",
    "replication.quota.window.num": _QUOTA + "test_the_windows_in_which_a_rate_is_measured",
    "replication.quota.window.size.seconds": _QUOTA + "test_the_windows_in_which_a_rate_is_measured",
    "controlled.shutdown.enable": _REPLICATION + "test_a_broker_that_is_told_so_stops_without_ceremony",
    "controlled.shutdown.max.retries": _TO_CONTROLLER
    + "test_the_controller_is_asked_as_often_as_allowed_whether_the_broker_may_stop",
    "controlled.shutdown.retry.backoff.ms": _TO_CONTROLLER
    + "test_the_controller_is_asked_as_often_as_allowed_whether_the_broker_may_stop",
    "control.plane.listener.name": _CHANNELS + "test_the_listener_at_which_a_broker_is_told",
    "controller.socket.timeout.ms": _TO_CONTROLLER + "test_how_long_a_controller_may_take",
    "request.timeout.ms": _FETCHER
    + "test_a_leader_that_does_not_answer_in_time_is_asked_by_another_connection",
    "socket.connection.setup.timeout.max.ms": _LINK
    + "test_a_connection_that_nobody_accepts_is_given_up_in_time",
    "socket.connection.setup.timeout.ms": _LINK + "test_a_connection_that_nobody_accepts_is_given_up_in_time",
    "num.replica.fetchers": _FETCHER + "test_several_fetchers_share_the_partitions_of_a_leader",
    "replica.fetch.backoff.ms": _FETCHER + "test_a_follower_rests_after_errors_no_longer_than_it_may",
    "replica.fetch.max.bytes": _FETCHER + "test_what_a_follower_asks_of_its_leader",
    "replica.fetch.min.bytes": _FETCHER + "test_what_a_follower_asks_of_its_leader",
    "replica.fetch.response.max.bytes": _FETCHER + "test_what_a_follower_asks_of_its_leader",
    "replica.fetch.wait.max.ms": _FETCHER + "test_what_a_follower_asks_of_its_leader",
    "replica.socket.receive.buffer.bytes": _FETCHER + "test_the_receive_buffer_of_a_follower",
    "replica.socket.timeout.ms": _FETCHER + "test_how_long_a_leader_may_take_to_accept_a_connection",
    "leader.imbalance.per.broker.percentage": _OFFICE + "test_nobody_is_elected_while_few_are_away",
    "leader.imbalance.check.interval.seconds": _OFFICE + "test_leaders_drift_back_by_themselves",
    "auto.leader.rebalance.enable": _OFFICE + "test_leaders_drift_back_by_themselves",
    "replica.selector.class": _REPLICATION + "test_consumers_read_from_the_replica_in_their_rack",
    "replica.lag.time.max.ms": _CLUSTER + "test_a_follower_that_hangs_leaves_and_comes_back",
    "connections.max.idle.ms": _LIMITS + "test_an_idle_connection_is_closed_and_a_busy_one_is_not",
    "max.connections": _LIMITS + "test_connections_over_the_limit_of_the_broker_wait_for_their_turn",
    "max.connections.per.ip": _LIMITS + "test_an_address_gets_no_more_connections_than_its_limit",
    "max.connections.per.ip.overrides": _LIMITS + "test_an_address_may_have_a_limit_of_its_own",
    "fetch.max.bytes": _LIMITS + "test_the_broker_bounds_a_fetch_and_the_number_of_sessions",
    "max.incremental.fetch.session.cache.slots": _LIMITS
    + "test_the_broker_bounds_a_fetch_and_the_number_of_sessions",
    "socket.receive.buffer.bytes": _LISTENER + "test_the_receive_buffer_is_the_kernels_unless_given",
    "socket.request.max.bytes": _BAD_INPUT + "test_the_largest_request_is_served_and_a_larger_one_is_not",
    "socket.send.buffer.bytes": _LISTENER + "test_admitted_connections_are_ready_for_the_event_loop",
    "advertised.listeners": _SETTINGS
    + "test_clients_are_told_of_another_address_at_once_and_after_a_restart",
    "authorizer.class.name": _ACLS + "test_a_class_of_the_operator_decides",
    "broker.id": _CONFIG + "test_without_a_file_it_serves_on_loopback_and_keeps_data_here",
    "broker.id.generation.enable": _CONFIG + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    "inter.broker.listener.name": _CONFIG + "test_listeners_of_several_names_and_families",
    "listener.security.protocol.map": _CONFIG + "test_listeners_of_several_names_and_families",
    "listeners": _CONFIG + "test_listeners_of_several_names_and_families",
    "log.cleaner.backoff.ms": _CLEANER + "test_it_rests_for_its_backoff_when_nothing_is_due",
    "log.cleaner.dedupe.buffer.size": _CLEANER + "test_a_small_map_of_keys_takes_several_rounds",
    "log.cleaner.delete.retention.ms": _COMPACTION + "test_delete_retention_ms",
    "log.cleaner.enable": _COMPACTION + "test_without_the_cleaner_nothing_of_a_compacted_topic_goes",
    "log.cleaner.io.buffer.load.factor": _CLEANER + "test_a_small_map_of_keys_takes_several_rounds",
    "log.cleaner.io.buffer.size": _CLEANER + "test_no_read_is_larger_than_its_buffer",
    "log.cleaner.io.max.bytes.per.second": _CLEANER + "test_all_threads_share_one_rate",
    "log.cleaner.max.compaction.lag.ms": _COMPACTION + "test_max_compaction_lag_ms",
    "log.cleaner.min.compaction.lag.ms": _COMPACTION + "test_min_compaction_lag_ms",
    "log.cleaner.threads": _CLEANER + "test_as_many_logs_at_a_time_as_there_are_threads",
    "log.cleaner.min.cleanable.ratio": _CONFIG + "test_log_config_is_what_topics_inherit",
    "log.cleanup.policy": _CONFIG + "test_log_config_is_what_topics_inherit",
    "log.dir": _CONFIG + "test_log_dir_is_read_where_log_dirs_is_not_set",
    "log.dirs": _CONFIG + "test_a_file_without_log_dirs_never_means_the_temporary_folder",
    "log.flush.interval.ms": _CONFIG + "test_log_config_is_what_topics_inherit",
    "log.flush.offset.checkpoint.interval.ms": _LIVE + "test_flush_messages_and_flush_ms",
    "log.flush.scheduler.interval.ms": _LIVE + "test_flush_messages_and_flush_ms",
    "log.message.timestamp.type": _CONFIG + "test_log_config_is_what_topics_inherit",
    "log.preallocate": "tests/faults/test_damage.py::test_what_a_killed_broker_had_preallocated_is_cut",
    "log.retention.check.interval.ms": _LIVE + "test_broker_retention",
    "log.retention.hours": _CONFIG + "test_topics_inherit_the_finest_unit_that_is_set",
    "log.retention.minutes": _CONFIG + "test_topics_inherit_the_finest_unit_that_is_set",
    "log.retention.ms": _CONFIG + "test_topics_inherit_the_finest_unit_that_is_set",
    "log.roll.hours": _CONFIG + "test_log_config_is_what_topics_inherit",
    "log.segment.bytes": _CONFIG + "test_log_config_is_what_topics_inherit",
    "log.segment.delete.delay.ms": _LIVE + "test_retention_ms_deletes_what_has_become_too_old",
    "message.max.bytes": _LIVE + "test_broker_settings_reach_every_topic_that_has_none_of_its_own",
    "node.id": _CONFIG + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    "pkafka.heartbeat.timeout.ms": _PROCESSES + "test_a_stopped_worker_is_killed_and_replaced",
    "pkafka.transaction.fenced.markers.heal.enable": (
        "tests/e2e/test_transaction_markers.py::test_a_transaction_that_another_marker_has_ended_completes"
    ),
    "pkafka.transactional.ids.max": _TRANSACTIONS
    + "test_at_the_bound_those_that_were_idle_for_longest_are_forgotten",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": _TRANSACTION_SETTINGS
    + "test_a_transaction_that_has_had_its_time_is_aborted_at_the_next_look",
    "transaction.max.timeout.ms": _TRANSACTION_SETTINGS + "test_a_producer_may_not_ask_for_more_time",
    "transaction.remove.expired.transaction.cleanup.interval.ms": _TRANSACTION_SETTINGS
    + "test_an_id_that_is_not_used_is_forgotten_at_the_next_look",
    "transaction.state.log.load.buffer.size": _TRANSACTIONS + "test_loading_reads_in_steps_of_the_buffer",
    "transaction.state.log.min.isr": _TRANSACTION_SETTINGS + "test_the_topic_is_made_as_configured",
    "transaction.state.log.num.partitions": _TRANSACTION_SETTINGS + "test_the_topic_is_made_as_configured",
    "transaction.state.log.replication.factor": _TRANSACTION_SETTINGS
    + "test_the_topic_is_made_as_configured",
    "transaction.state.log.segment.bytes": _TRANSACTION_SETTINGS + "test_the_topic_is_made_as_configured",
    "transactional.id.expiration.ms": _TRANSACTION_SETTINGS
    + "test_an_id_that_is_not_used_is_forgotten_at_the_next_look",
    "pkafka.workers": _CONFIG + "test_workers_follow_the_cores_unless_set",
    "process.roles": _CONFIG + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    "reserved.broker.max.id": _IDENTITY + "test_an_id_is_generated_above_those_that_people_give_and_kept",
    "security.inter.broker.protocol": _CONFIG + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    "zookeeper.connect": _CONFIG + "test_a_file_without_log_dirs_never_means_the_temporary_folder",
    "log.initial.task.delay.ms": _WORKER_LOGS + "test_the_tasks_of_the_log_manager_begin_after_their_delay",
    "group.initial.rebalance.delay.ms": _GROUPS + "test_members_meet_whatever_their_connections",
    "group.max.session.timeout.ms": _GROUPS + "test_settings_of_groups",
    "group.max.size": _GROUPS + "test_settings_of_groups",
    "group.min.session.timeout.ms": _GROUPS + "test_settings_of_groups",
    "offset.metadata.max.bytes": _GROUPS + "test_settings_of_groups",
    "offsets.load.buffer.size": _COORDINATOR + "test_loading_reads_in_steps_of_the_buffer",
    "offsets.commit.required.acks": _COMMITS + "test_a_commit_waits_for_replicas_as_the_settings_say",
    "offsets.commit.timeout.ms": _COMMITS + "test_a_commit_waits_for_replicas_as_the_settings_say",
    "offsets.retention.check.interval.ms": _GROUPS + "test_settings_of_groups",
    "offsets.retention.minutes": _GROUPS + "test_settings_of_groups",
    "offsets.topic.compression.codec": _COORDINATOR + "test_the_codec_of_the_topic_of_offsets",
    "offsets.topic.num.partitions": _GROUPS + "test_settings_of_groups",
    "offsets.topic.replication.factor": _GROUPS
    + "test_without_enough_brokers_for_the_replicas_nobody_coordinates",
    "offsets.topic.segment.bytes": _GROUPS + "test_settings_of_groups",
    "compression.type": _SETTINGS + "test_compression_type",
    "compression.gzip.level": _SETTINGS + "test_compression_levels",
    "compression.lz4.level": _SETTINGS + "test_compression_levels",
    "compression.zstd.level": _SETTINGS + "test_compression_levels",
    "log.index.interval.bytes": _SETTINGS + "test_index_settings",
    "log.index.size.max.bytes": _SETTINGS + "test_index_settings",
    "log.message.downconversion.enable": _SETTINGS + "test_downconversion",
    "log.message.timestamp.before.max.ms": _SETTINGS + "test_records_that_are_too_old",
    "log.message.timestamp.difference.max.ms": _SETTINGS + "test_records_that_are_too_old",
    "log.message.timestamp.after.max.ms": _SETTINGS + "test_records_of_the_future",
    "log.retention.bytes": _SETTINGS + "test_retention_bytes",
    "log.roll.ms": _SETTINGS + "test_roll_ms",
    "log.roll.jitter.ms": _SETTINGS + "test_roll_jitter",
    "log.roll.jitter.hours": _CONFIG + "test_age_of_segments_in_the_finest_unit_that_is_set",
    "log.flush.interval.messages": _SETTINGS + "test_flush_interval_messages",
    "min.insync.replicas": _WORKER_LOGS + "test_topics_inherit_how_many_replicas_must_be_in_sync",
    "num.partitions": _SETTINGS + "test_topics_are_created_on_demand_with_the_partitions_of_the_broker",
    "auto.create.topics.enable": _SETTINGS
    + "test_topics_are_not_created_on_demand_nor_deleted_where_that_is_off",
    "default.replication.factor": _SETTINGS
    + "test_topics_are_not_created_on_demand_nor_deleted_where_that_is_off",
    "delete.topic.enable": _SETTINGS + "test_topics_are_not_created_on_demand_nor_deleted_where_that_is_off",
    "broker.rack": _SETTINGS + "test_clients_are_told_the_rack",
    "pkafka.metrics.basic.auth.file": _METRICS_ACCESS + "test_a_page_is_for_users_who_log_in",
    "pkafka.metrics.ssl.keystore.location": _METRICS_ACCESS
    + "test_a_page_with_a_certificate_is_served_by_https",
    "pkafka.metrics.ssl.keystore.password": _METRICS_ACCESS + "test_stores_of_each_form_are_read",
    "pkafka.metrics.ssl.keystore.type": _METRICS_ACCESS + "test_stores_of_each_form_are_read",
    "pkafka.metrics.ssl.key.password": _METRICS_ACCESS + "test_stores_of_each_form_are_read",
    "pkafka.metrics.ssl.client.auth": _METRICS_ACCESS
    + "test_readers_without_a_trusted_certificate_are_refused",
    "pkafka.metrics.ssl.truststore.location": _METRICS_ACCESS
    + "test_readers_without_a_trusted_certificate_are_refused",
    "pkafka.metrics.ssl.truststore.password": _METRICS_ACCESS + "test_truststores_of_each_form_are_read",
    "pkafka.metrics.ssl.truststore.type": _METRICS_ACCESS + "test_truststores_of_each_form_are_read",
    "pkafka.ssl.crl.location": _ENCRYPTION
    + "test_a_certificate_that_is_revoked_is_refused_from_the_next_connection_on",
    "pkafka.metrics.host": _SETTINGS + "test_the_page_of_metrics_is_where_it_was_asked_for",
    "pkafka.metrics.port": _SETTINGS + "test_the_page_of_metrics_is_where_it_was_asked_for",
    "log.flush.start.offset.checkpoint.interval.ms": _SETTINGS
    + "test_checkpoints_are_written_at_their_intervals",
    "replica.high.watermark.checkpoint.interval.ms": _SETTINGS
    + "test_checkpoints_are_written_at_their_intervals",
    "max.connection.creation.rate": _SETTINGS + "test_connections_are_taken_in_at_their_rate",
    "controller.quota.window.num": _MUTATIONS + "test_a_bucket_holds_what_is_allowed_in_all_windows",
    "controller.quota.window.size.seconds": _MUTATIONS + "test_a_bucket_holds_what_is_allowed_in_all_windows",
    "quota.window.num": _SETTINGS + "test_connections_are_taken_in_at_their_rate",
    "quota.window.size.seconds": _SETTINGS + "test_connections_are_taken_in_at_their_rate",
    "producer.id.expiration.ms": _SETTINGS + "test_producers_are_forgotten_after_their_expiration",
    "producer.id.expiration.check.interval.ms": _SETTINGS
    + "test_producers_are_forgotten_after_their_expiration",
    "transaction.partition.verification.enable": _PRODUCE
    + "test_nothing_is_asked_while_the_broker_is_told_so",
    "create.topic.policy.class.name": _SETTINGS + "test_policies_of_the_operator",
    "alter.config.policy.class.name": _SETTINGS + "test_policies_of_the_operator",
    "unclean.leader.election.enable": _SETTINGS
    + "test_a_replica_that_missed_records_leads_as_soon_as_that_is_allowed",
    "zookeeper.session.timeout.ms": _TIMEOUTS
    + "test_the_node_of_a_killed_broker_goes_when_its_session_is_over",
    "zookeeper.connection.timeout.ms": _TIMEOUTS
    + "test_a_start_waits_for_the_first_connection_as_long_as_it_is_told",
    "socket.listen.backlog.size": _SETTINGS + "test_as_many_connections_wait_as_the_backlog_has_room_for",
    "queued.max.request.bytes": _SETTINGS + "test_large_requests_wait_for_memory_and_small_ones_do_not",
    **dict.fromkeys(
        (
            "client.quota.callback.class",
            "principal.builder.class",
            "remote.log.storage.system.enable",
        ),
        _CONFIG + "test_wrong_setting_is_refused_with_key_and_what_is_allowed",
    ),
    "zookeeper.set.acl": "tests/interop/test_zookeeper_acls.py::test_nodes_are_protected_as_by_kafka",
    "zookeeper.max.in.flight.requests": _ZOOKEEPER + "test_no_more_requests_than_allowed_wait_for_an_answer",
}
"""Broker key to the test of its effect."""

BROKER_WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "ssl.keymanager.algorithm": _PKIX,
    "ssl.trustmanager.algorithm": _PKIX,
    "ssl.protocol": _VERSIONS,
    "ssl.secure.random.implementation": _RANDOM,
    "broker.heartbeat.interval.ms": _KRAFT,
    "broker.session.timeout.ms": _KRAFT,
    "controller.listener.names": _KRAFT,
    "controller.quorum.append.linger.ms": _KRAFT,
    "controller.quorum.bootstrap.servers": _KRAFT,
    "controller.quorum.election.backoff.max.ms": _KRAFT,
    "controller.quorum.election.timeout.ms": _KRAFT,
    "controller.quorum.fetch.timeout.ms": _KRAFT,
    "controller.quorum.request.timeout.ms": _KRAFT,
    "controller.quorum.retry.backoff.ms": _KRAFT,
    "controller.quorum.voters": _KRAFT,
    "eligible.leader.replicas.enable": _KRAFT,
    "initial.broker.registration.timeout.ms": _KRAFT,
    "log.dir.failure.timeout.ms": _KRAFT,
    "max.request.partition.size.limit": _KRAFT,
    "metadata.log.dir": _KRAFT,
    "metadata.log.max.record.bytes.between.snapshots": _KRAFT,
    "metadata.log.max.snapshot.interval.ms": _KRAFT,
    "metadata.log.segment.bytes": _KRAFT,
    "metadata.log.segment.min.bytes": _KRAFT,
    "metadata.log.segment.ms": _KRAFT,
    "metadata.max.idle.interval.ms": _KRAFT,
    "metadata.max.retention.bytes": _KRAFT,
    "metadata.max.retention.ms": _KRAFT,
    "server.max.startup.time.ms": _KRAFT,
    "telemetry.max.bytes": _KRAFT,
    "unclean.leader.election.interval.ms": _KRAFT,
    "unstable.api.versions.enable": _KRAFT,
    "unstable.feature.versions.enable": _KRAFT,
    "zookeeper.metadata.migration.enable": _KRAFT,
    "zookeeper.metadata.migration.min.batch.size": _KRAFT,
    "sasl.mechanism.controller.protocol": _KRAFT,
    "auto.include.jmx.reporter": _JAVA,
    "sasl.client.callback.handler.class": _JAVA,
    "sasl.login.class": _JAVA,
    "sasl.kerberos.kinit.cmd": _TICKETS,
    "sasl.kerberos.min.time.before.relogin": _TICKETS,
    "sasl.kerberos.ticket.renew.jitter": _TICKETS,
    "sasl.kerberos.ticket.renew.window.factor": _TICKETS,
    "kafka.metrics.reporters": _JAVA,
    "metric.reporters": _JAVA,
    "zookeeper.clientCnxnSocket": _JAVA,
    "kafka.metrics.polling.interval.secs": _RATES,
    "metrics.num.samples": _RATES,
    "metrics.recording.level": _RATES,
    "metrics.sample.window.ms": _RATES,
    "background.threads": _THREADS,
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "num.recovery.threads.per.data.dir": _THREADS,
    "num.replica.alter.log.dirs.threads": _THREADS,
    "delete.records.purgatory.purge.interval.requests": _PURGATORY,
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "queued.max.requests": _QUEUE,
    "log.message.format.version": _FORMAT,
}
"""Broker key to the reason why it can have no effect on this kind of broker; it is typed, checked and described."""

BROKER_ACCEPTED_WITHOUT_EFFECT: Final = frozenset(
    {
        "early.start.listeners",
        "group.consumer.assignors",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.coordinator.append.linger.ms",
        "group.coordinator.new.enable",
        "group.coordinator.rebalance.protocols",
        "group.coordinator.threads",
        "group.share.delivery.count.limit",
        "group.share.enable",
        "group.share.heartbeat.interval.ms",
        "group.share.max.groups",
        "group.share.max.heartbeat.interval.ms",
        "group.share.max.record.lock.duration.ms",
        "group.share.max.session.timeout.ms",
        "group.share.max.size",
        "group.share.min.heartbeat.interval.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.min.session.timeout.ms",
        "group.share.partition.max.record.locks",
        "group.share.record.lock.duration.ms",
        "group.share.session.timeout.ms",
        "inter.broker.protocol.version",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "remote.fetch.max.wait.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.copy.quota.window.num",
        "remote.log.manager.copy.quota.window.size.seconds",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.fetch.quota.window.num",
        "remote.log.manager.fetch.quota.window.size.seconds",
        "remote.log.manager.task.interval.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "remote.log.manager.thread.pool.size",
        "remote.log.metadata.custom.metadata.max.bytes",
        "remote.log.metadata.manager.class.name",
        "remote.log.metadata.manager.class.path",
        "remote.log.metadata.manager.impl.prefix",
        "remote.log.metadata.manager.listener.name",
        "remote.log.reader.max.pending.tasks",
        "remote.log.reader.threads",
        "remote.log.storage.manager.class.name",
        "remote.log.storage.manager.class.path",
        "remote.log.storage.manager.impl.prefix",
        "security.providers",
    }
)
"""Broker keys that are typed, checked, described and stored, and that no test shows to do more."""

TOPIC_EFFECTIVE: Final[Mapping[str, str]] = {
    "message.downconversion.enable": "tests/e2e/test_fetch.py::test_old_clients_are_told_when_conversion_is_off",
    "min.insync.replicas": "tests/unit/server/handlers/test_produce.py::test_replicas_in_sync",
    "cleanup.policy": _LIVE + "test_cleanup_policy",
    "compression.type": _LIVE + "test_compression_type",
    "delete.retention.ms": _COMPACTION + "test_delete_retention_ms",
    "max.compaction.lag.ms": _COMPACTION + "test_max_compaction_lag_ms",
    "min.cleanable.dirty.ratio": _COMPACTION + "test_min_cleanable_dirty_ratio",
    "min.compaction.lag.ms": _COMPACTION + "test_min_compaction_lag_ms",
    "file.delete.delay.ms": _LIVE + "test_file_delete_delay",
    "flush.messages": _LIVE + "test_flush_messages_and_flush_ms",
    "flush.ms": _LIVE + "test_flush_messages_and_flush_ms",
    "index.interval.bytes": _LIVE + "test_index_interval_bytes",
    "max.message.bytes": _LIVE + "test_max_message_bytes_refuses",
    "message.timestamp.after.max.ms": _LIVE + "test_message_timestamp_limits",
    "message.timestamp.before.max.ms": _LIVE + "test_message_timestamp_limits",
    "message.timestamp.type": _LIVE + "test_message_timestamp_type",
    "preallocate": _LIVE + "test_preallocate",
    "retention.bytes": _LIVE + "test_retention_bytes_keeps_the_newest",
    "retention.ms": _LIVE + "test_retention_ms_deletes_what_has_become_too_old",
    "segment.bytes": _LIVE + "test_segment_bytes_rolls",
    "segment.ms": _LIVE + "test_segment_ms_rolls",
    "compression.gzip.level": _SETTINGS + "test_compression_levels",
    "compression.lz4.level": _SETTINGS + "test_compression_levels",
    "compression.zstd.level": _SETTINGS + "test_compression_levels",
    "segment.index.bytes": _SETTINGS + "test_index_settings",
    "message.timestamp.difference.max.ms": _SETTINGS + "test_a_topics_own_difference_of_timestamps",
    "segment.jitter.ms": _SETTINGS + "test_roll_jitter",
    "unclean.leader.election.enable": _SETTINGS
    + "test_a_replica_that_missed_records_leads_as_soon_as_that_is_allowed",
    "follower.replication.throttled.replicas": _THROTTLES
    + "test_a_move_takes_the_time_that_either_side_allows",
    "leader.replication.throttled.replicas": _THROTTLES
    + "test_a_move_takes_the_time_that_either_side_allows",
}
"""Topic key to the test of its effect."""

TOPIC_WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "message.format.version": _FORMAT,
}
"""The same for topic keys."""

TOPIC_ACCEPTED_WITHOUT_EFFECT: Final = frozenset(
    {
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)
"""Topic keys that are typed, checked, described and stored, and that no test shows to do more."""
