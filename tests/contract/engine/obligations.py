"""Each obligation of the Engine port, in its own words, the engines that break it, and the tests that find them out."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.contract.engine import broken, broken_reports, broken_sessions
from tests.engines.memory import MemoryEngine


@dataclass(frozen=True, slots=True)
class Obligation:
    """Words of `app/engine.py`, and how they are held to."""

    words: str
    """As they stand in the port; lines may break elsewhere."""
    proofs: Mapping[type[MemoryEngine], tuple[str, ...]]
    """The tests that fail, by the engine that breaks the obligation."""


OBLIGATIONS = (
    Obligation(
        "Any call may be repeated, by several replicas, at any time",
        {
            broken.CreatesAnchorsInARace: ("test_there_is_one_anchor_when_two_processes_ensure_it_many_times_at_once",),
            broken.RestartsWhatIsReleasedAgain: ("test_it_runs_once_when_it_is_released_again_and_again",),
            broken.MixesUpConcurrentCalls: ("test_nothing_fails_when_many_calls_are_made_at_once",),
        },
    ),
    Obligation(
        "`code` is a run reason (`domain.reasons`)",
        {
            broken_reports.HasNoCodes: ("test_nothing_is_absent_when_the_place_cannot_be_reached",),
            broken.RefusesWithoutAReason: (
                "test_run_is_refused_and_the_stranger_stays_when_another_object_has_its_name",
                "test_volume_is_refused_when_its_claim_has_another_id",
            ),
            broken.LeavesTheReasonOut: ("test_nothing_is_left_when_a_refused_release_is_settled",),
        },
    ),
    Obligation(
        "the run stays as it is, and the call is retried",
        {
            broken_reports.SwallowsFailures: ("test_calls_can_be_retried_when_the_place_could_not_be_reached",),
        },
    ),
    Obligation(
        "the engine refuses the run, and a retry would not help",
        {
            broken_reports.RefusesWhenCut: ("test_calls_can_be_retried_when_the_place_could_not_be_reached",),
            broken.HidesRefusals: ("test_nothing_is_left_when_a_refused_release_is_settled",),
        },
    ),
    Obligation(
        "It does not change when the engine is restarted, moved or renamed.",
        {
            broken_reports.MovesWithEachProcess: ("test_place_is_the_same_when_another_process_opens_the_engine",),
        },
    ),
    Obligation(
        "a call of an older generation than the anchor has seen does nothing",
        {
            broken.ObeysOlderGenerations: (
                "test_it_stays_stopped_when_an_older_release_comes_late",
                "test_it_goes_on_when_a_stopped_service_is_released_and_an_older_stop_comes_late",
            ),
            broken.SettlesOlderGenerations: ("test_secrets_stay_when_a_settle_of_an_older_generation_comes_late",),
        },
    ),
    Obligation(
        "The newest generation that the anchor has obeyed.",
        {
            broken_reports.ForgetsTheGeneration: ("test_generation_is_the_newest_when_calls_were_obeyed",),
        },
    ),
    Obligation(
        "A restarted container is another instance.",
        {
            broken_reports.CountsNoInstances: ("test_each_instance_ends_for_itself_when_a_container_is_started_again",),
        },
    ),
    Obligation(
        "How one instance of a container ended.",
        {
            broken_reports.ForgetsExitCodes: (
                "test_exit_code_is_seen_when_the_work_fails",
                "test_success_is_seen_when_the_work_ends_well",
            ),
            broken_reports.TakesSignalsForExitCodes: ("test_signal_is_seen_when_the_process_was_killed",),
            broken_reports.TakesOutOfMemoryForASignal: (
                "test_out_of_memory_is_seen_when_the_limit_was_reached",
                "test_run_has_failed_when_a_part_of_it_ran_out_of_memory_and_its_exit_code_says_success",
            ),
            broken_reports.TakesEverySignalForOutOfMemory: ("test_signal_is_seen_when_the_process_was_killed",),
        },
    ),
    Obligation(
        "The most memory that it used; None: not known.",
        {
            broken_reports.MeasuresPeaksInKibibytes: ("test_out_of_memory_is_seen_when_the_limit_was_reached",),
        },
    ),
    Obligation(
        "Grows when versions begin anew, as after the restore of an etcd.",
        {
            broken_reports.ForgetsEpochs: ("test_epoch_grows_when_versions_begin_anew",),
        },
    ),
    Obligation(
        "Never decreases at one place.",
        {
            broken_reports.CountsEpochsPerProcess: ("test_epoch_grows_when_versions_begin_anew",),
        },
    ),
    Obligation(
        "Never decreases for one anchor in one epoch.",
        {
            broken_reports.CountsNoVersions: ("test_version_grows_when_something_happens",),
            broken_reports.CountsVersionsDown: ("test_every_change_is_reported_when_it_comes_after_the_call",),
        },
    ),
    Obligation(
        "At most `MOST_ENDS`.",
        {
            broken_reports.KeepsOnlyTheLastEnd: (
                "test_each_instance_ends_for_itself_when_a_container_is_started_again",
            ),
            broken_reports.ListsEveryEnd: ("test_newest_ends_are_listed_when_there_are_too_many",),
        },
    ),
    Obligation(
        "Also of an anchor that is absent now, as far as the engine saw it end.",
        {
            broken_reports.ForgetsEndsOfWhatIsGone: ("test_ends_are_kept_when_an_ended_run_is_gone",),
        },
    ),
    Obligation(
        "Some of `STATUS_KEYS`, each complete as far as the engine knows; at most `LARGEST_DETAILS_BYTES`.",
        {
            broken_reports.ShowsEveryEvent: ("test_details_are_small_when_much_happened",),
            broken_reports.AddsOwnDetails: ("test_details_are_small_when_much_happened",),
        },
    ),
    Obligation(
        "What an engine observes of an anchor",
        {
            broken_reports.TakesHeldForPending: ("test_nothing_starts_when_the_anchor_was_not_released",),
            broken_reports.TakesPendingForHeld: ("test_it_is_pending_when_it_was_released_and_cannot_start",),
            broken_reports.TakesFailureForSuccess: ("test_exit_code_is_seen_when_the_work_fails",),
            broken_reports.TakesSuccessForFailure: ("test_success_is_seen_when_the_work_ends_well",),
            broken_reports.WaitsWithoutAMessage: ("test_it_is_pending_when_it_was_released_and_cannot_start",),
        },
    ),
    Obligation(
        "False if a part could not be read: then absence from the list means nothing.",
        {
            broken.ClaimsTheListIsComplete: ("test_list_is_not_complete_when_a_part_cannot_be_read",),
            broken.NeverListsCompletely: ("test_list_is_not_complete_when_a_part_cannot_be_read",),
        },
    ),
    Obligation(
        "The UID of the run's anchor, or None; asks the cluster itself, not a cache.",
        {
            broken.InventsAnchors: ("test_no_anchor_is_found_when_none_was_created",),
            broken_reports.FindsNothingInSilence: ("test_nothing_is_absent_when_the_place_cannot_be_reached",),
        },
    ),
    Obligation(
        "Create the run's anchor, held back, or find it by its name",
        {
            broken.CreatesAnotherAnchor: ("test_anchor_is_the_same_when_it_is_ensured_again",),
            broken.SharesOneAnchor: ("test_runs_have_anchors_of_their_own_when_their_ids_differ",),
            broken.StartsBeforeTheRelease: ("test_nothing_starts_when_the_anchor_was_not_released",),
            broken.ReplacesStrangers: ("test_run_is_refused_and_the_stranger_stays_when_another_object_has_its_name",),
        },
    ),
    Obligation(
        "An anchor of another run with the same id does not count",
        {
            broken.KnowsAnchorsByProjectAndRunId: (
                "test_anchor_is_of_its_run_when_a_run_of_the_same_id_was_there_before",
            ),
            broken.KnowsAnchorsByRunId: ("test_only_one_starts_when_two_runs_of_different_projects_have_the_same_id",),
        },
    ),
    Obligation(
        "Start an anchor that is held back, with everything it needs",
        {
            broken.ForgetsSecretsOnRelease: ("test_container_has_the_secret_when_it_was_released",),
        },
    ),
    Obligation(
        "Changes only that UID: if it is absent, nothing is created.",
        {
            broken.CreatesAnchorsOnRelease: (
                "test_it_is_absent_when_somebody_deleted_it_and_no_call_creates_it_again",
            ),
            broken.IgnoresTheUid: ("test_newer_anchor_is_untouched_when_calls_name_the_older_uid",),
        },
    ),
    Obligation(
        "Sends only what `assignment.admission` admitted.",
        {
            broken.SendsMoreThanWasAdmitted: (
                "test_everything_that_was_sent_was_admitted_when_a_job_is_started",
                "test_everything_that_was_sent_was_admitted_when_a_service_is_started",
            ),
        },
    ),
    Obligation(
        "What it returns is all that an engine may send",
        {
            broken.CreatesRefusedAnchors: ("test_nothing_is_created_when_the_anchor_is_not_admitted",),
            broken.StoresSecretsBeforeTheAdmission: (
                "test_nothing_starts_and_nothing_is_left_when_the_release_is_not_admitted",
            ),
        },
    ),
    Obligation(
        "An anchor that has ended by itself is not restarted.",
        {
            broken.RestartsEndedRuns: ("test_it_is_not_started_again_when_its_work_had_ended",),
        },
    ),
    Obligation(
        "`absent` only after asking the cluster itself",
        {
            broken_reports.TakesSilenceForAbsence: ("test_nothing_is_absent_when_the_place_cannot_be_reached",),
        },
    ),
    Obligation(
        "at most `LARGEST_DESCRIPTION_BYTES`",
        {
            broken_reports.DescribesWithoutABound: ("test_description_is_bounded_when_much_happened",),
            broken_reports.DescribesNothing: ("test_description_is_bounded_when_much_happened",),
            broken_reports.DescribesSecrets: (
                "test_values_of_secrets_are_not_shown_when_a_run_is_observed_or_described",
            ),
        },
    ),
    Obligation(
        "Begin to stop the run. Its anchor stays",
        {
            broken.NeverStops: ("test_it_ends_when_it_is_stopped_and_again",),
            broken.RemovesWhatItStops: ("test_it_ends_when_it_is_stopped_and_again",),
            broken.StopsEndedRuns: ("test_end_stays_when_a_stop_comes_after_the_work_has_ended",),
        },
    ),
    Obligation(
        "and so does its output until it is read",
        {
            broken.DropsOutputOfStoppedRuns: ("test_output_can_be_read_when_the_run_was_stopped",),
        },
    ),
    Obligation(
        "one held back stays so",
        {
            broken.ForgetsTheStopOfAHeldRun: ("test_it_never_starts_when_it_is_stopped_while_held",),
        },
    ),
    Obligation(
        "Clean up after the end of a run whose log is stored; returns whether all is done.",
        {
            broken.SettlesRunsAtWork: ("test_run_goes_on_when_it_is_settled_before_its_end",),
            broken.RemovesWhatIsSettled: ("test_end_can_be_seen_when_the_run_is_settled",),
        },
    ),
    Obligation(
        "Removes the values of secrets",
        {
            broken.KeepsSecrets: (
                "test_absent_anchor_is_settled_when_somebody_deleted_it",
                "test_values_of_secrets_are_gone_when_an_ended_run_is_settled",
            ),
            broken.KeepsTokens: ("test_values_of_secrets_are_gone_when_an_ended_run_is_settled",),
        },
    ),
    Obligation(
        "asks for deletion after the spec's `ttl_seconds`",
        {
            broken.IgnoresTheTtl: ("test_anchor_goes_after_its_ttl_when_the_run_is_settled_and_not_before",),
            broken.DeletesAfterTheTtlUnsettled: (
                "test_anchor_goes_after_its_ttl_when_the_run_is_settled_and_not_before",
            ),
        },
    ),
    Obligation(
        "An anchor that never ran is removed with everything it owns.",
        {
            broken.KeepsWhatNeverRan: (
                "test_nothing_is_left_when_a_run_that_was_never_released_is_settled",
                "test_nothing_is_left_when_a_refused_release_is_settled",
            ),
            broken.StartsRefusedRuns: ("test_nothing_is_left_when_a_refused_release_is_settled",),
        },
    ),
    Obligation(
        "A stopped service keeps what `release` needs to start it again, its anchor too if it never ran.",
        {
            broken.RemovesStoppedServices: ("test_service_starts_when_it_was_stopped_and_settled_before_it_ran",),
            broken.CannotStartAgain: ("test_stopped_service_starts_again_with_its_secrets_when_it_was_settled",),
            broken.StartsAgainWithoutSecrets: (
                "test_stopped_service_starts_again_with_its_secrets_when_it_was_settled",
            ),
        },
    ),
    Obligation(
        "One that cannot be resumed is removed with everything it owns.",
        {
            broken.KeepsFailedServices: (
                "test_nothing_is_left_when_a_stopped_service_that_cannot_be_resumed_is_settled",
            ),
        },
    ),
    Obligation(
        "An absent anchor is settled.",
        {
            broken.NeverSettlesWhatIsAbsent: ("test_absent_anchor_is_settled_when_somebody_deleted_it",),
        },
    ),
    Obligation(
        "Begin to remove the anchor of that UID and everything it owns, running or not.",
        {
            broken.RemovesOnlyTheAnchor: ("test_nothing_is_left_when_it_is_removed_at_work",),
            broken.RemovesOnlyWhatItMade: ("test_it_is_removed_when_another_process_knows_only_what_is_listed",),
            broken.RemovesByName: ("test_newer_anchor_is_untouched_when_calls_name_the_older_uid",),
        },
    ),
    Obligation(
        "Every anchor of this installation, with its observation",
        {
            broken.ListsOnlyWhatRuns: ("test_every_anchor_is_listed_when_runs_are_held_at_work_and_ended",),
            broken.ListsAnchorsWithoutTheirAction: (
                "test_every_anchor_is_listed_when_runs_are_held_at_work_and_ended",
            ),
            broken.ListsAnchorsOfOthers: (
                "test_anchors_of_others_are_neither_listed_nor_reported_when_they_are_at_the_same_place",
            ),
        },
    ),
    Obligation(
        "Observations as they change, in batches; of one run the newest only.",
        {
            broken_reports.RepeatsRunsInABatch: ("test_batch_has_the_newest_of_each_run_when_there_were_many_changes",),
        },
    ),
    Obligation(
        "Every change after the call is reported, absence too.",
        {
            broken_reports.ReportsNoAbsence: ("test_absence_is_reported_when_somebody_deletes_the_anchor",),
            broken_reports.ReportsNoEnds: ("test_every_change_is_reported_when_it_comes_after_the_call",),
            broken_reports.SubscribesWhenItIsRead: ("test_changes_are_kept_when_nobody_reads_them_yet",),
            broken_reports.TellsOnlyTheLastSubscriber: (
                "test_every_subscriber_is_told_when_there_are_several_and_one_leaves",
            ),
        },
    ),
    Obligation(
        "The outputs that exist or have existed, as far as the engine knows; in the order in which they began.",
        {
            broken_reports.ListsSourcesBeforeTheStart: ("test_there_are_no_sources_when_nothing_has_run",),
            broken_reports.ListsSourcesNewestFirst: (
                "test_restarted_container_is_another_source_when_it_writes_again",
            ),
            broken_reports.KnowsSourcesByRunId: ("test_sources_are_of_their_run_when_two_runs_have_the_same_id",),
        },
    ),
    Obligation(
        "The output of one instance of a container.",
        {
            broken_reports.MergesInstances: ("test_restarted_container_is_another_source_when_it_writes_again",),
        },
    ),
    Obligation(
        "Output, in order and without overlap; `position` is where the next chunk begins.",
        {
            broken_reports.DecodesLogs: ("test_log_is_whole_when_the_run_has_ended",),
            broken_reports.RepeatsTheLastChunk: (
                "test_nothing_is_missing_or_doubled_when_reading_resumes_after_any_chunk",
            ),
            broken_reports.SkipsAByteAfterEachChunk: (
                "test_nothing_is_missing_or_doubled_when_reading_resumes_after_any_chunk",
            ),
        },
    ),
    Obligation(
        "ends when the instance has ended and all was read",
        {
            broken_reports.EndsLogsWhereTheyStandNow: ("test_log_is_followed_to_its_end_when_the_run_is_at_work",),
            broken_reports.NeverEndsLogs: ("test_log_is_followed_to_its_end_when_the_run_is_at_work",),
        },
    ),
    Obligation(
        "A part that cannot be read is a gap.",
        {
            broken_reports.HidesGaps: (
                "test_gap_says_why_when_the_container_is_gone",
                "test_gap_says_why_when_output_was_rotated_away",
            ),
            broken_reports.HasGapsWithoutACause: ("test_gap_says_why_when_the_container_is_gone",),
            broken_reports.StandsStillAtGaps: ("test_gap_says_why_when_output_was_rotated_away",),
        },
    ),
    Obligation(
        "Raises `EngineUnavailable` if the rest may be readable later.",
        {
            broken_reports.EndsLogsWhenCut: ("test_rest_is_read_later_when_the_place_could_not_be_reached",),
        },
    ),
    Obligation(
        "Prepare what runs of a project need",
        {
            broken.PreparesNothing: ("test_runs_can_begin_when_their_project_was_prepared_several_times_at_once",),
        },
    ),
    Obligation(
        "Remove what `ensure_project` made; returns whether it is gone.",
        {
            broken.KeepsProjects: ("test_runs_can_begin_when_their_project_was_prepared_several_times_at_once",),
            broken.NeverFinishesRemovingProjects: (
                "test_other_projects_stay_when_one_is_removed",
                "test_runs_can_begin_when_their_project_was_prepared_several_times_at_once",
            ),
            broken.RemovesEveryProject: ("test_other_projects_stay_when_one_is_removed",),
        },
    ),
    Obligation(
        "Never removes what it did not make.",
        {
            broken.RemovesProjectsOfOthers: ("test_project_stays_when_somebody_else_made_it",),
        },
    ),
    Obligation(
        "Create a kept volume, or find it",
        {
            broken.CreatesVolumesAgain: ("test_volume_is_the_same_when_it_is_ensured_again",),
        },
    ),
    Obligation(
        "never one of the same claim with another id: `EngineRefusal`",
        {
            broken.TakesVolumesOfOtherIds: (
                "test_volume_is_refused_when_its_claim_has_another_id",
                "test_claim_of_others_is_listed_and_untouched_when_it_is_ensured_or_removed",
            ),
        },
    ),
    Obligation(
        "Begin to remove a kept volume with its data; returns whether it is gone.",
        {
            broken.KeepsVolumes: ("test_volume_is_gone_when_it_is_removed_and_again",),
            broken.KeepsDataOfRemovedVolumes: ("test_data_is_gone_when_the_volume_was_removed_and_created_again",),
            broken.RemovesMountedVolumes: ("test_mounted_volume_goes_when_the_last_run_that_mounts_it_has_ended",),
        },
    ),
    Obligation(
        "Only that id.",
        {
            broken.RemovesVolumesByClaim: ("test_volume_stays_when_another_id_is_removed",),
        },
    ),
    Obligation(
        "A volume that lives longer than the runs that mount it.",
        {
            broken.RemovesVolumesWithTheirRuns: ("test_data_is_kept_when_the_run_that_wrote_it_is_removed",),
        },
    ),
    Obligation(
        "Uids of the runs that have it mounted now.",
        {
            broken.ListsNoMounts: ("test_mounted_volume_goes_when_the_last_run_that_mounts_it_has_ended",),
        },
    ),
    Obligation(
        "Every kept volume of this installation",
        {
            broken.ListsVolumesOfOneProject: ("test_volumes_of_all_projects_are_listed_when_there_are_several",),
        },
    ),
    Obligation(
        "A kept volume that is missing counts as lost",
        {
            broken.ListsTheFirstVolumes: ("test_volumes_of_all_projects_are_listed_when_there_are_several",),
        },
    ),
    Obligation(
        "None: it carries no id of a volume of this installation.",
        {
            broken.HidesClaimsOfOthers: ("test_claim_of_others_is_listed_and_untouched_when_it_is_ensured_or_removed",),
        },
    ),
    Obligation(
        "What the place has and what is used, for the explainer",
        {
            broken_reports.TakesEmptySnapshots: ("test_snapshot_shows_nodes_and_pods_when_something_runs",),
            broken_reports.TakesSnapshotsWithoutATimeZone: ("test_snapshot_shows_nodes_and_pods_when_something_runs",),
        },
    ),
    Obligation(
        "Close connections. Runs continue.",
        {
            broken.StopsRunsOnClose: ("test_runs_go_on_when_the_engine_is_closed",),
        },
    ),
    Obligation(
        "Start a command in a container. Raises `EngineRefusal` if there is none that runs.",
        {
            broken_sessions.OpensSessionsWhereNothingRuns: ("test_sessions_are_refused_when_nothing_of_the_run_runs",),
        },
    ),
    Obligation(
        "Attach to the main process of a container.",
        {
            broken_sessions.AttachesToNothing: ("test_output_of_the_run_is_seen_when_a_session_is_attached_to_it",),
        },
    ),
    Obligation(
        "and ERROR if the connection fails",
        {
            broken_sessions.HidesRefusedConnections: ("test_failure_is_told_when_nothing_listens_at_the_port",),
        },
    ),
    Obligation(
        "STDOUT, STDERR and at last ERROR, at most `LARGEST_MESSAGE_BYTES` each, until the other side has ended.",
        {
            broken_sessions.MixesOutputs: ("test_outputs_are_told_apart_when_the_command_writes_to_both",),
            broken_sessions.DecodesOutput: ("test_input_comes_back_whole_when_a_command_echoes_it_to_its_end",),
            broken_sessions.SendsLargeMessages: ("test_input_comes_back_whole_when_a_command_echoes_it_to_its_end",),
            broken_sessions.EndsWithoutAStatus: ("test_status_has_the_exit_code_when_the_command_fails",),
        },
    ),
    Obligation(
        "the reason `NonZeroExitCode` and the exit code in `details.causes`",
        {
            broken_sessions.SaysSuccessWhateverHappened: ("test_status_has_the_exit_code_when_the_command_fails",),
        },
    ),
    Obligation(
        "Ends the channel whose number is the content (half-close)",
        {
            broken_sessions.NeverEndsInput: ("test_input_comes_back_whole_when_a_command_echoes_it_to_its_end",),
        },
    ),
    Obligation(
        "waits while the container does not read (back-pressure)",
        {
            broken_sessions.SwallowsInput: ("test_sender_waits_when_the_command_does_not_read",),
        },
    ),
    Obligation(
        "Close the connection, wherever it is. Idempotent.",
        {
            broken_sessions.ClosesOnlyOnce: ("test_run_goes_on_when_a_session_is_closed_twice",),
            broken_sessions.StopsRunsWithTheirSessions: ("test_run_goes_on_when_a_session_is_closed_twice",),
        },
    ),
    Obligation(
        "One entry per container that runs now",
        {
            broken_sessions.MeasuresNothing: ("test_usage_of_each_container_is_listed_when_the_run_runs",),
            broken_sessions.MeasuresWithoutATimeZone: ("test_usage_of_each_container_is_listed_when_the_run_runs",),
        },
    ),
    Obligation(
        "How large the run's own volumes are together",
        {
            broken_sessions.CountsDiskOfOthers: (
                "test_disk_is_nothing_when_the_run_has_no_volumes_or_the_anchor_is_another",
            ),
        },
    ),
)
