"""``GET api/class-news``: what the hub's page *Home* tells people of classes that they have announced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dra_spawner.service.ahead.announced_classes import Announcer
from dra_spawner.service.http.classes.class_json import classes_json
from dra_spawner.service.http.pages.page_text import begins
from dra_spawner.service.http.requests.authentication import ApiHandler
from dra_spawner.service.http.requests.endpoints import Access, endpoint
from dra_spawner.service.http.schemas.class_schemas import CLASS_NEWS

__all__ = ["ClassNewsHandler"]

_USER = "user "


class ClassNewsHandler(ApiHandler):
    """See the module. The hub sends the service's own token."""

    @endpoint("What is to be said of coming classes.", Access.OPERATE, answer=CLASS_NEWS, hub=True)
    async def get(self) -> None:
        self.write_json({"items": list(self._items())})

    def _items(self) -> Iterator[dict[str, Any]]:
        controller, runner = self.context.controller, self.context.scale_ahead
        if controller is None or runner is None or controller.overrides.unknown_because:
            return
        for each in classes_json(controller, runner, Announcer("the hub", None)):
            time = each["next"]
            if time is None or time["phase"] == "over" or not each["by"].startswith(_USER):
                continue
            is_problem = time["phase"] == "coming" and time["turned_at"] is not None
            if sentence := time["verdict"] if is_problem else time["sentence"]:
                yield {
                    "user": each["by"].removeprefix(_USER),
                    "name": each["name"],
                    "begins": begins(time),
                    "sentence": sentence,
                    "is_problem": is_problem,
                }
