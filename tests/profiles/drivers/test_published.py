"""The cache of what the last facts publish, which threads share."""

from __future__ import annotations

from dra_spawner.profiles.drivers.published import published
from dra_spawner.profiles.facts import ClusterFacts
from tests.other_threads import results_at_each_step


def test_a_caller_gets_an_answer_about_its_own_facts_whatever_another_thread_asks() -> None:
    own, others = ClusterFacts(namespace="own"), ClusterFacts(namespace="others")
    for last in (own, others):
        published(last)
        found = list(results_at_each_step(published, lambda: published(own), lambda: published(others)))
        assert len(found) > 10, "steps"
        assert {id(each.facts) for each in found} == {id(own)}
