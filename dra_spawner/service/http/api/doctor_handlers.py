"""Handlers of what is wrong with the cluster, and what to do: API and page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado.web import HTTPError

from dra_spawner.doctor.findings import Severity, Subject
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.profiles.drivers import DriverNotUsable
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.requests.authentication import ApiHandler, PageHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, endpoint
from dra_spawner.service.http.schemas.schema_parts import choice, integer, items, moment, record, text

DOCTOR: Final = record(
    {
        "examined_at": moment(),
        "errors": integer(1),
        "warnings": integer(0),
        "infos": integer(0),
        "namespace": text("jupyterhub"),
        "kubernetes": text("1.36"),
        "findings": items(
            record(
                {
                    "code": text("no-device-classes"),
                    "subject": choice(Subject),
                    "severity": choice(Severity),
                    "sentence": text("The cluster has no DeviceClass, so no profile can request a device."),
                    "fix": text("Install the DRA driver of your devices."),
                    "where": text(""),
                }
            )
        ),
    }
)
"""Schema of the answer."""


class DoctorHandler(ApiHandler):
    """``GET api/doctor``: what the service finds wrong with the cluster, at most a minute old."""

    @endpoint("What is wrong with the cluster, hub and service, each with its fix.", Access.READ, answer=DOCTOR)
    async def get(self) -> None:
        self.write_json(await _report(self.context))


class DoctorPage(PageHandler):
    """``GET doctor``: the same as a page."""

    @endpoint("What is wrong with the cluster, hub and service, as a page.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        found = await _report(self.context)
        by_subject = {
            subject.value: [each for each in found["findings"] if each["subject"] == subject] for subject in Subject
        }
        subjects = [(name, own) for name, own in by_subject.items() if own]
        await self.render("doctor.html", found=found, subjects=subjects)


async def _report(context: ServiceContext) -> Mapping[str, Any]:
    """The report.

    Raises
    ------
    HTTPError
        503, with the reason, if the cluster cannot be examined.
    """
    if context.examination is None:
        raise HTTPError(503, "The cluster is not found yet.")
    try:
        return await context.examination.report()
    except (KubernetesError, DriverNotUsable) as error:
        # The text of an error may have a percent sign.
        raise HTTPError(503, "%s", f"The cluster cannot be examined: {error}.") from None
