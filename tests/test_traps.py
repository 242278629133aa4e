"""Known mistakes of analyzers of Kafka traffic, and the tests against each of them.

Each key is a known trap of the wire; its value names the tests, as ``file::name``. This file only
makes sure that each trap has tests and that they exist.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from tests.support.cases import for_each

TESTS = Path(__file__).resolve().parent

KAFKA = "kafka/session/test_connection.py"
LOGIN = "kafka/session/test_login.py"
ONE_WAY = "kafka/session/test_correlation.py"
TRACKER = "kafka/session/test_tracker.py"
LOCATE = "kafka/session/test_resync.py"
READER = "kafka/session/test_message_reader.py"
INTERESTS = "tables/requests/test_field_selection.py"
OLD = "kafka/v07/test_messages.py"
OLD_FIELDS = "kafka/v07/test_exchanges.py"
OLD_CONNECTION = "kafka/v07/test_connection.py"
OLD_ROWS = "tables/requests/test_kafka07.py"
ROWS = "tables/test_rows.py"
RECORDS = "kafka/records/test_types.py"
BATCHES = "kafka/records/test_batches.py"
COMPRESSION = "kafka/records/test_compression.py"
REASSEMBLY = "net/tcp/test_reassembly.py"
FRAMING = "kafka/framing/test_framer.py"
DISORDER = "test_disorder.py"
LOSS = "test_loss.py"

PAIRING = {
    "ids are per connection, may be 0, negative, not rising": [
        f"{KAFKA}::test_any_correlation_id_is_paired",
        f"{KAFKA}::test_a_response_answers_the_request_with_its_correlation_id",
        f"{KAFKA}::test_correlation_ids_belong_to_one_connection",
    ],
    "an id is used again after its response": [
        f"{KAFKA}::test_an_id_may_be_used_again_after_its_response",
    ],
    "the oldest unanswered request with an id is the one answered": [
        f"{KAFKA}::test_the_older_of_two_requests_with_one_id_is_answered_first",
        "kafka/session/test_correlation.py::test_pending_requests_behave_like_a_list_searched_from_its_oldest_end",
    ],
    "a response may be captured before its request": [
        f"{KAFKA}::test_a_response_captured_before_its_request_is_paired_and_reported",
        f"{KAFKA}::test_after_a_loss_among_requests_an_orphan_is_not_kept_for_a_later_request",
    ],
    "a capture may begin or end in the middle of anything": [
        f"{TRACKER}::test_the_first_packet_may_be_the_brokers",
        f"{TRACKER}::test_a_capture_that_begins_inside_a_large_request_loses_no_later_one",
        f"{KAFKA}::test_a_request_cut_by_the_end_of_the_capture_keeps_its_header",
        f"{TRACKER}::test_a_connection_that_ends_within_its_first_request_still_gives_a_row",
    ],
    "acks=0 has no response": [
        f"{ONE_WAY}::test_produce_with_acks_0_gets_no_response",
    ],
    "some brokers answer Produce with acks=0: the id names the request": [
        f"{ONE_WAY}::test_a_response_to_produce_with_acks_0_is_paired_and_reported",
    ],
    "acks sits after the transactional id": [
        f"{KAFKA}::test_acks_is_read_after_the_transactional_id",
        "kafka/session/test_message_reader.py::test_acks_are_read_in_every_layout",
    ],
    "an unsupported ApiVersions is answered with error 35 in version 0": [
        f"{KAFKA}::test_an_unsupported_api_versions_request_is_answered_in_version_0",
        f"{KAFKA}::test_an_api_versions_request_newer_than_the_tables_is_still_a_request",
    ],
    "ApiVersions responses have response header v0": [
        f"{KAFKA}::test_api_versions_responses_have_no_tags_in_their_header",
    ],
    "ControlledShutdown v0 has no client id": [
        f"{KAFKA}::test_controlled_shutdown_v0_has_no_client_id",
        "kafka/framing/test_frame.py::test_version_0_has_no_client_id",
    ],
    "after SaslHandshake v0 come raw tokens, after v1 SaslAuthenticate": [
        f"{LOGIN}::test_after_sasl_handshake_v0_come_raw_tokens_and_then_requests_again",
        f"{LOGIN}::test_tokens_in_sasl_authenticate_give_the_user_and_are_not_kept",
        f"{LOGIN}::test_tokens_of_a_login_are_no_messages_and_no_anomalies",
    ],
    "a handshake that is refused is followed by no token": [
        f"{LOGIN}::test_an_unreadable_frame_is_no_token",
    ],
    "a frame that does not parse after a login is lost data, not a token": [
        f"{LOGIN}::test_an_unreadable_frame_is_no_token",
        f"{LOGIN}::test_a_request_in_place_of_a_token_is_a_request",
    ],
    "GSSAPI tokens with no handshake at all": [
        f"{TRACKER}::test_gssapi_tokens_with_no_handshake_come_before_the_first_request",
        f"{TRACKER}::test_gssapi_tokens_without_a_request_after_them_are_not_kafka",
    ],
    "tokens are never shown, never stored": [
        f"{TRACKER}::test_tokens_are_in_no_exchange_and_no_anomaly",
        "tables/requests/test_field_selection.py::test_no_secret_is_ever_requested",
        f"{LOGIN}::test_a_password_is_in_no_exchange_and_no_anomaly",
    ],
    "TLS records": [
        "model/test_tls.py::test_records_are_recognized_by_type_version_and_length",
        f"{TRACKER}::test_a_tls_connection_gives_no_row_and_is_counted",
        f"{TRACKER}::test_a_tls_connection_has_its_lifetime_and_its_bytes",
    ],
    "a TLS client on a plaintext port": [
        f"{TRACKER}::test_a_tls_client_on_a_plaintext_port_is_named",
    ],
    "ports tell nothing, content decides": [
        f"{TRACKER}::test_the_client_is_known_by_its_requests_not_by_who_opened_the_connection",
        f"{TRACKER}::test_a_client_may_have_port_9092",
        f"{LOCATE}::test_a_verdict_says_whether_bytes_are_a_request",
    ],
    "other protocols with a 4-byte length are not Kafka": [
        "kafka/session/test_other_protocols.py::test_a_recorded_protocol_is_named_and_gives_no_row",
        "kafka/session/test_other_protocols.py::test_a_protocol_that_looks_like_kafka_gives_no_row",
    ],
    "a port pair is used again after a close": [
        f"{TRACKER}::test_a_port_pair_used_again_begins_anew",
        f"{REASSEMBLY}::test_a_syn_with_another_number_is_a_connection_of_its_own",
    ],
    "the client is known without a SYN": [
        f"{TRACKER}::test_the_first_packet_may_be_the_brokers",
    ],
}

BODIES = {
    "an API version newer than the tables": [
        f"{READER}::test_a_newer_version_is_read_as_the_newest_known_one_if_that_fits_exactly",
        f"{ROWS}::test_an_unknown_api_is_named_by_its_number",
    ],
    "the same version had other fields in another release while it was unstable": [
        "kafka/session/test_superseded.py::test_a_summary_as_kafka_3_9_wrote_it_is_read",
        "kafka/session/test_superseded.py::test_messages_of_an_early_release_are_read",
    ],
    "topic ids, and names learned later": [
        "test_topic_names.py::test_a_name_learned_later_holds_for_earlier_rows",
        "test_topic_names.py::test_a_name_learned_in_a_later_file_holds_too",
        f"{INTERESTS}::test_names_are_learned_from_every_struct_with_both_name_and_id",
    ],
    "fetch sessions, forgotten topics included": [
        f"{ROWS}::test_an_incremental_fetch_lists_all_partitions_of_its_session",
        "tables/requests/test_long_polls.py::test_a_session_has_the_partitions_that_its_fetches_named",
        f"{ROWS}::test_a_session_from_before_the_capture_lists_only_named_partitions",
    ],
    "an empty response is legal": [
        f"{ROWS}::test_an_incremental_fetch_lists_all_partitions_of_its_session",
    ],
    "the last batch of a Fetch response may be cut anywhere": [
        f"{RECORDS}::test_the_last_batch_may_be_cut_anywhere",
        f"{BATCHES}::test_a_last_batch_that_is_cut_anywhere_is_left_out_and_reported",
    ],
    "records, keys, values and header values may be null": [
        "tables/requests/test_extract.py::test_an_exchange_has_the_partitions_of_both_messages",
        f"{BATCHES}::test_any_records_by_another_encoder_are_read_back",
        f"{RECORDS}::test_no_bytes_hold_no_batch",
    ],
    "control batches hold no user records": [
        f"{RECORDS}::test_control_batches_hold_no_user_records",
        f"{BATCHES}::test_a_control_batch_is_distinguished_from_records",
    ],
    "transactional and aborted records are records": [
        f"{RECORDS}::test_records_of_a_transaction_are_counted_like_others",
    ],
    "LZ4 in magic 0 has a wrong header checksum": [
        f"{COMPRESSION}::test_the_wrong_header_checksum_of_magic_0_is_accepted_on_request_only",
    ],
    "snappy raw or Xerial, gzip of many members": [
        f"{COMPRESSION}::test_decompressed_data_is_the_original",
        f"{COMPRESSION}::test_too_many_empty_members_are_a_problem",
    ],
    "a compressed batch may be a bomb": [
        f"{COMPRESSION}::test_a_bomb_takes_no_more_than_the_limit",
        f"{BATCHES}::test_a_bomb_is_bounded_in_bytes_and_in_ratio",
    ],
    "throttling shows in throttle_time_ms, not in the latency": [
        f"{ROWS}::test_throttle_time_is_not_part_of_the_latency",
    ],
    "waiting is not slowness": [
        "tables/requests/test_long_polls.py::test_a_fetch_waits_for_its_time_or_for_data_beyond_the_log_end",
        "test_truth.py::test_a_fetch_that_waited_is_one_the_broker_held_in_purgatory",
    ],
    "errors live at several levels": [
        f"{ROWS}::test_an_error_deep_inside_is_an_error_of_the_request",
        "tables/requests/test_extract.py::test_metadata_shows_names_and_errors_at_every_level",
        "tables/requests/test_field_selection.py::test_every_error_code_of_every_response_is_found_in_its_order",
    ],
    "librdkafka's four zero bytes after ApiVersions v0": [
        f"{KAFKA}::test_trailing_bytes_are_an_anomaly_and_the_message_is_kept",
    ],
    "tshark is compared in TCP, packet numbers and headers alone": [
        "test_tshark.py::test_every_request_that_tshark_shows_is_ours_in_its_order",
        "test_tshark.py::test_tshark_sees_the_same_tcp_connections_and_as_many_tcp_packets",
    ],
    "unknown tagged fields are skipped by their size, and kept where all is read": [
        "kafka/codec/test_compiler.py::test_unknown_tags_are_kept_or_stepped_over",
    ],
}

KAFKA_0_7 = {
    "PRODUCE and MULTIPRODUCE": [
        f"{OLD}::test_a_produce_has_messages_of_both_magics_and_may_leave_the_partition_to_the_broker",
        f"{OLD_CONNECTION}::test_produce_and_multiproduce_get_no_response",
    ],
    "FETCH": [f"{OLD_FIELDS}::test_a_fetch_has_all_its_fields"],
    "OFFSETS": [
        f"{OLD_FIELDS}::test_an_offsets_request_has_a_time_and_a_number",
        f"{OLD}::test_offsets_of_a_response_come_newest_first_and_fill_the_frame",
    ],
    "MULTIFETCH": [
        f"{OLD_FIELDS}::test_a_multifetch_has_a_response_for_each_part",
    ],
    "messages of magic 0 and 1, compressed and checked": [
        f"{OLD}::test_compressed_messages_hide_their_number",
        f"{OLD}::test_a_payload_with_another_checksum_is_counted",
        f"{OLD}::test_the_last_message_of_a_response_may_be_cut",
    ],
    "responses come in the order of requests": [
        f"{OLD_CONNECTION}::test_responses_come_in_the_order_of_requests",
        f"{OLD_CONNECTION}::test_after_a_lost_boundary_nothing_is_paired",
    ],
    "offsets are byte positions": [
        f"{OLD_CONNECTION}::test_the_offset_of_the_next_fetch_proves_a_pair",
        f"{OLD_ROWS}::test_a_fetch_has_its_offset_and_its_messages",
    ],
    "content decides which protocol it is": [
        f"{TRACKER}::test_no_topic_of_kafka_0_7_is_taken_for_a_version",
        f"{TRACKER}::test_later_versions_are_not_taken_for_kafka_0_7",
        f"{TRACKER}::test_the_response_decides_if_a_request_is_valid_in_both_protocols",
        "kafka/v07/test_resync.py::test_no_request_of_later_versions_is_taken_for_kafka_07",
    ],
}

STREAMS = {
    "retransmitted, overlapping, out-of-order, duplicated segments": [
        f"{REASSEMBLY}::test_segments_captured_out_of_order_are_put_in_order",
        f"{REASSEMBLY}::test_repeated_bytes_are_dropped_and_counted",
        f"{REASSEMBLY}::test_the_first_copy_of_overlapping_bytes_counts",
        f"{DISORDER}::test_every_transformation_of_every_capture_gives_the_same_rows",
    ],
    "sequence numbers that wrap": [
        f"{REASSEMBLY}::test_splitting_moving_doubling_and_overlapping_changes_nothing",
        f"{DISORDER}::test_sequence_numbers_do_wrap",
    ],
    "keep-alive probes": [
        f"{REASSEMBLY}::test_keep_alive_probes_are_not_data",
        f"{REASSEMBLY}::test_a_probe_before_the_first_byte_is_not_data",
    ],
    "data in SYN": [f"{REASSEMBLY}::test_data_in_a_syn_is_the_beginning_of_the_stream"],
    "RST and half-closed connections": [
        f"{REASSEMBLY}::test_a_reset_closes_at_once",
        f"{REASSEMBLY}::test_one_end_may_go_on_after_the_other_has_closed",
    ],
    "a capture that holds every packet twice": [
        f"{REASSEMBLY}::test_packets_captured_twice_are_not_counted_as_retransmitted",
        "net/tcp/test_segment_iterator.py::test_the_same_packet_soon_after_is_a_copy_and_the_first_is_none",
    ],
    "a lost segment is a gap; the next frame is found in both directions": [
        f"{FRAMING}::test_a_gap_over_a_boundary_loses_sync_and_the_next_frame_is_found",
        f"{KAFKA}::test_both_directions_are_in_sync_again_after_a_lost_boundary",
        f"{LOSS}::test_untouched_exchanges_are_there_and_no_row_is_wrong",
    ],
    "a capture starting inside a produce request loses no later one": [
        f"{TRACKER}::test_a_capture_that_begins_inside_a_large_request_loses_no_later_one",
        f"{LOSS}::test_a_capture_may_begin_with_any_packet",
    ],
    "a snap length cuts packets": [
        f"{REASSEMBLY}::test_a_snap_length_leaves_the_length_of_the_stream_as_it_was",
        f"{FRAMING}::test_a_snap_length_leaves_sizes_and_times",
        f"{KAFKA}::test_a_snapped_frame_keeps_its_header_and_times",
    ],
    "frames and packets need not begin or end together": [
        f"{FRAMING}::test_any_segmentation_gives_the_same_frames",
        f"{FRAMING}::test_any_segmentation_gives_the_same_frames",
    ],
    "frames up to 100 MiB are normal, larger are implausible": [
        f"{FRAMING}::test_the_largest_frame_is_a_hundred_mebibytes_and_reserves_nothing",
        f"{FRAMING}::test_an_implausible_size_is_no_frame_and_is_not_waited_for",
    ],
    "a gap is never filled with zeros": [
        f"{REASSEMBLY}::test_a_hole_at_the_end_of_the_capture_is_a_gap",
        f"{FRAMING}::test_a_gap_inside_a_frame_costs_only_its_own_bytes",
    ],
    "nothing is buffered without bound": [
        f"{REASSEMBLY}::test_too_many_buffered_bytes_in_all_give_up_the_hole_of_the_largest_buffer",
        "kafka/session/test_connection.py::test_all_connections_together_buffer_no_more_than_the_limit",
        "test_memory_limit.py::test_memory_stays_within_the_limit",
    ],
}

HOSTILE = {
    "array counts of 2^31 and nested counts": [
        "kafka/codec/test_compiler.py::test_false_counts_and_lengths_take_little_memory",
        "fuzz/test_hostile.py::test_arrays_of_smallest_elements_stay_within_the_limit",
        "fuzz/test_hostile.py::test_every_message_stays_within_the_limit",
    ],
    "varints that never end": [
        "kafka/test_wire.py::test_a_varint_that_is_too_long_or_too_large_is_malformed",
    ],
    "negative lengths, sizes that overflow": [
        "kafka/codec/test_compiler.py::test_many_wrong_bytes_give_what_the_reference_gives",
        "fuzz/test_fuzz.py::test_hostile_inputs_break_nothing",
    ],
    "tags out of order": [
        "kafka/test_wire.py::test_tags_that_do_not_rise_are_malformed",
    ],
    "compressed data that lies": [
        f"{COMPRESSION}::test_a_bomb_takes_no_more_than_the_limit",
        f"{COMPRESSION}::test_snappy_data_with_a_false_size_allocates_little",
    ],
}

TRAPS = PAIRING | BODIES | KAFKA_0_7 | STREAMS | HOSTILE


@functools.cache
def names_of_tests(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


@for_each("trap", TRAPS)
def test_a_trap_has_tests_and_they_exist(trap: str) -> None:
    assert TRAPS[trap]
    for test in TRAPS[trap]:
        file, _, name = test.partition("::")
        assert name in names_of_tests(file), test


def test_no_trap_is_written_twice() -> None:
    parts = (PAIRING, BODIES, KAFKA_0_7, STREAMS, HOSTILE)
    assert len(TRAPS) == sum(map(len, parts))
