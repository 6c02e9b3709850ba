"""The demo's profiles fit its nodes, and any other cluster gets some too."""

from dra_spawner.devcluster.demo.example_nodes import device_classes
from dra_spawner.devcluster.demo.profiles import EXAMPLE_PROFILES, profiles_for_classes
from dra_spawner.profiles import profile_list_problems


def test_five_profiles_are_sound():
    assert len(EXAMPLE_PROFILES) == 5
    assert profile_list_problems(list(EXAMPLE_PROFILES)) == []


def test_the_example_nodes_have_every_class():
    names = [device_class["metadata"]["name"] for device_class in device_classes()]
    assert profiles_for_classes(names) == list(EXAMPLE_PROFILES)


def test_another_cluster_gets_a_profile_for_each_class():
    profiles = profiles_for_classes(["gpu.nvidia.com", "mig.nvidia.com"])
    assert [profile["slug"] for profile in profiles] == ["gpu-nvidia-com", "mig-nvidia-com", "cpu"]
    assert profile_list_problems(profiles) == []


def test_a_cluster_without_classes_gets_a_notebook_without_devices():
    assert [profile["slug"] for profile in profiles_for_classes([])] == ["cpu"]
