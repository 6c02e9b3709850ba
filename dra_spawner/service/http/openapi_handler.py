"""Handler of the OpenAPI document."""

from __future__ import annotations

from dra_spawner.service.http.openapi import openapi_document
from dra_spawner.service.http.requests.authentication import ApiHandler
from dra_spawner.service.http.requests.endpoints import Access, endpoint

__all__ = ["OpenApiHandler"]


class OpenApiHandler(ApiHandler):
    """``GET api/openapi.json``: every address of the service, with examples."""

    @endpoint("This document.", Access.READ, answer={"type": "object", "examples": [{"openapi": "3.1.0"}]})
    async def get(self) -> None:
        self.write_json(openapi_document(self.settings["addresses"], self.web.prefix))
