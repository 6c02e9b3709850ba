"""The report for people: grouped by subject, the worst first, harmless for a terminal."""

from dra_spawner.doctor.examination import examine
from dra_spawner.doctor.facts import Unseen
from dra_spawner.doctor.report_text import report_text
from tests.doctor.objects import sound


def test_the_report_lists_findings_by_subject() -> None:
    facts = sound(kubernetes=(1, 38), classes=(), unseen=(Unseen("The\x1b[2J nodes", "no\nright"),))
    assert report_text(facts, examine(facts)) == (
        "versions\n"
        "  info     Kubernetes 1.38 is newer than 1.37, the newest release that was tested. How Kubernetes 1.38 allocates "
        "devices is not known exactly here: what is free is computed as its first beta allocates.\n"
        "           (kubernetes-version)\n"
        "\n"
        "devices and drivers\n"
        "  error    The cluster has no DeviceClass, so no profile can request a device.\n"
        "           fix: Install the DRA driver of your devices: docs/reference/drivers.md lists them.\n"
        "           (no-device-classes)\n"
        "\n"
        "rights\n"
        "  info     The\\x1b[2J nodes could not be seen: no\\nright.\n"
        "           The\\x1b[2J nodes (not-seen)\n"
        "\n"
        "1 error, 2 infos in namespace jupyterhub on Kubernetes 1.38\n"
    )


def test_nothing_wrong() -> None:
    assert report_text(sound(), ()) == "nothing is broken in namespace jupyterhub on Kubernetes 1.36\n"


def test_colours_are_for_terminals() -> None:
    facts = sound(classes=())
    assert "\x1b[31merror  \x1b[0m" in report_text(facts, examine(facts), colours=True)
