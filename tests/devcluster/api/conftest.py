"""The embedded cluster is the newest release's, so it is compared with no older one."""

from tests.cluster.harness_binary import NEWEST, chosen_release

collect_ignore = ["test_fidelity.py", "test_fidelity_of_bodies.py"] if chosen_release() != NEWEST else []
