"""Versions are compared with what the package itself requires."""

import pytest

from dra_spawner.doctor.supported_versions import own_packages, package_problems


@pytest.mark.parametrize(
    ("found", "bound"),
    [
        ({"jupyterhub": "5.2.0"}, ">=5.2.1"),
        ({"jupyterhub": "5.2.1"}, ""),
        ({"jupyterhub": "6.0.3"}, "!=6.0.*"),
        ({"jupyterhub": "6.1.0b1"}, ""),
        ({"jupyterhub": "7.0"}, "<7"),
        ({"jupyterhub-kubespawner": "6.2.0"}, ">=7.0"),
        ({"jupyterhub-kubespawner": "7"}, ""),
        ({"jupyterhub": "nonsense"}, ">=5.2.1"),
        ({"another": "1"}, ""),
    ],
)
def test_a_version_and_the_bound_that_it_breaks(found: dict[str, str], bound: str) -> None:
    problems = list(package_problems(found))
    assert [each for _, each in problems] == ([bound] if bound else [])
    for sentence, _ in problems:
        assert next(iter(found.values())) in sentence


def test_the_installed_versions_are_supported() -> None:
    assert own_packages().keys() == {"jupyterhub", "jupyterhub-kubespawner"}
    assert list(package_problems(own_packages())) == []
