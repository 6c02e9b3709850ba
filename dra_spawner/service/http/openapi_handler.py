"""Handler of the OpenAPI document."""

from __future__ import annotations

from dra_spawner.service.http.authentication import ApiHandler
from dra_spawner.service.http.endpoints import Access, endpoint
from dra_spawner.service.http.openapi import openapi_document

__all__ = ["OpenApiHandler"]


class OpenApiHandler(ApiHandler):
    """``GET api/openapi.json``: every address of the service, with examples."""

    @endpoint("This document.", Access.READ, answer={"type": "object", "examples": [{"openapi": "3.1.0"}]})
    async def get(self) -> None:
        self.write_json(openapi_document(self.settings["addresses"], self.web.prefix))
