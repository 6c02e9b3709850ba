"""Tests whose tier neither their fixtures nor their directories tell; names are below ``tests/``."""

from __future__ import annotations

from typing import Final

__all__ = ["DAYS", "DEAR", "LONG"]

#: Modules, tests, and tests with one parameter that are worth their time once a night, not in each change; and why.
LONG: Final = {
    "oracle/test_differential.py::test_random_scenarios_have_the_reference_verdicts": "20,000 scenarios of five releases",
    "devcluster/demo/test_demo.py::test_a_hub_whose_proxy_is_late_is_started_again": "20 s until JupyterHub gives a proxy up",
    "placeholders/planner/test_day.py::test_no_more_is_paid_for": "a sum over all days: on a single one it is chance",
    "service/test_chaos.py": "half an hour of anything, on real schedulers",
    "placeholders/planner/test_storms.py": "storms of users over hours",
    "fairness/tickets/test_queue_waits.py::test_four_of_five_waits_end_in_the_interval": "weeks of nine hubs; a small one in short elsewhere",
    "virtual_time/test_ticket_days.py::test_three_days_of_200_users": "600 sessions on a real scheduler",
    "placeholders/planner/answers/test_waits.py": "a calibration that needs its whole sample",
    "adversary/test_device_classes.py::test_the_service_answers_and_decides_beside_hostile_device_classes[real]": "as embedded",
    "adversary/test_sizes.py::test_no_user_gets_more_than_a_device_has[real]": "as embedded",
    "adversary/test_files.py::test_choices_that_no_hub_could_offer[choices that differ, just within the limit of check]": "seconds of one command at its limit",
    "adversary/test_files.py::test_choices_that_no_hub_could_offer[choices that differ, just within the limit of render]": "as of check",
    "browser/test_demo.py::test_an_existing_cluster_is_used_instead": "half a minute of a second kind of demo",
    "chart/test_whole_chart.py::test_two_hubs_in_one_namespace_and_a_third_elsewhere": "half a minute for each hub more",
    "integration/test_documented_claims.py::test_every_documented_claim_gets_its_devices[real]": "as embedded",
    "integration/test_same_as_kubespawner.py::test_every_way_in_which_a_start_can_end[embedded]": "as on the real cluster",
    "dra/cel/library/test_cost.py::test_any_expensive_selectors": "an older oracle to build; recorded answers elsewhere",
    "oracle/test_trackers.py::test_random_states_have_the_taints_of_the_scheduler[1.36]": "a second scheduler to build; its answers are recorded",
    "node/test_handovers.py::test_a_restart_in_the_middle_of_a_handover": "restarts of kubelet, driver and node, one by one",
    "node/test_healing.py::test_a_claim_that_the_kubelet_loses": "a minute of kubelet's own retries",
    "node/test_readiness.py::test_an_image_is_removed_and_comes_back": "a minute of kubelet's own reports",
    "node/test_drivers.py": "facts about drivers on a real kubelet, not about the product",
    "node/test_handover_facts.py": "facts about kubelet, not about the product",
    "node/test_outage.py": "two minutes without an API server",
    "node/test_restarts.py": "restarts of kubelet and container runtime",
    "integration/test_handover.py::test_a_service_is_killed_between_reservations": "over a minute of Leases and reservations",
    "integration/test_killed_in_between.py::test_in_a_handover_on_a_full_node": "another 18 rows of one mechanism",
    "integration/test_killed_in_between.py::test_where_a_server_is_made_again": "another 7 rows of one mechanism",
    "integration/test_killed_in_between.py::test_a_hub_that_is_started_again_where_a_server_is_made_again": "two minutes of hubs",
    "commands/removing/test_uninstall_command.py::test_only_reported_objects_are_left[real]": "as embedded",
    "integration/test_vlans.py::test_one_failed_request_of_a_start": "another 20 rows of test_faults.py",
    "integration/test_warm_starts.py::test_one_failed_request": "another 21 rows of test_faults.py",
    "integration/test_several_options.py": "half a minute of a hub and a service",
    "placeholders/planner/test_refused.py::test_each_preemption_is_on_another_node": "days of rounds, each second",
    "placeholders/planner/test_capped.py::test_creation_is_retried_at_longer_and_longer_intervals": "hours of rounds",
    "adversary/test_largest_objects.py": "objects of the largest size that etcd takes",
}
#: Tests of the tier *system* that its directories do not name: each takes seconds of processors, and none is a promise.
DAYS: Final = frozenset(
    (
        "adversary/test_calendars.py::test_hostile_calendars_beside_a_good_one",
        "adversary/test_calendars.py::test_no_event_hides_another_one",
        "adversary/test_device_search.py",
        "adversary/test_expressions.py",
        "adversary/test_files.py::test_mutated_files_end_every_command_as_documented",
        "adversary/test_imports.py::test_calendars_of_a_replay",
        "adversary/test_invented_names.py::test_nothing_of_an_invented_name_is_kept",
        "commands/replaying/test_html_report.py",
        "commands/replaying/test_replay_command.py::test_an_ical_calendar_announces_a_class",
        "devcluster/demo/test_demo.py::test_the_reason_is_told_when_the_hub_does_not_start",
        "placeholders/controller/test_failures_are_not_absence.py::test_after_any_failures_nothing_has_changed",
        "placeholders/controller/test_failures_are_not_absence.py::test_each_failure_of_each_kind_leaves_all_as_it_is",
        "placeholders/planner/amounts/test_creations.py::test_few_are_made_in_each_minute",
        "placeholders/planner/cluster/test_cluster_index.py",
        "placeholders/planner/test_capped.py",
        "placeholders/planner/test_chaos.py",
        "placeholders/planner/test_day.py",
        "placeholders/planner/test_discussion.py::test_a_node_in_each_zone_does_not_go_and_come_for_ever",
        "placeholders/planner/test_random_tickets.py",
        "placeholders/planner/test_refused.py",
        "scale_ahead/controller/test_calendar_problems.py::test_a_calendar_that_is_down_lowers_nothing",
        "scale_ahead/controller/test_scale_ahead.py::test_a_restart_changes_no_target",
        "scale_ahead/controller/test_scale_ahead.py::test_nodes_of_a_class_on_a_cold_cluster_are_ordered_once",
        "scale_ahead/demand/test_forecast.py::test_a_class_that_came_three_times_is_expected_again",
        "scale_ahead/demand/test_forecast.py::test_a_known_holiday_lowers_the_forecast_at_once",
        "scale_ahead/demand/test_forecast.py::test_vacations_lower_the_expectation_of_past_weeks",
        "scale_ahead/demand/test_steady_number.py",
        "scale_ahead/replay/test_frontier.py",
        "scale_ahead/replay/test_replay.py",
        "scale_ahead/reports/test_history_misses.py",
        "simulator/test_snapshot_properties.py",
    )
)
#: Tests that take a minute or more in a tier of the gate, the longest first: each begins first in a process of its own.
DEAR: Final = (
    "integration/test_same_as_kubespawner.py::test_every_way_in_which_a_start_can_end[real]",
    "chart/test_whole_chart.py::test_a_hub_at_the_root",
    "browser/test_start_pages.py::test_after_a_failed_start_something_smaller_or_another_try",
)
