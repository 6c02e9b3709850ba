"""The Python ``configurable-http-proxy``, changed to forward responses as they arrive.

Unchanged, it waits for the end of a response before it forwards the first byte, gives up after 20 seconds, and accepts
no body of more than 100 MB: the progress page of a server that waits for a device would show nothing, and then an
error. The library has no hook, so its handler is replaced. Run as ``python -m
dra_spawner.devcluster.demo.streaming_proxy`` with its own options.
"""

from __future__ import annotations

import asyncio
import functools
import io
import urllib.parse

import aiohttp
import configurable_http_proxy.cli
import configurable_http_proxy.configproxy
from configurable_http_proxy.handlers import ProxyHandler
from tornado.httpclient import HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from yarl import URL

# Hop-by-hop headers of RFC 9110; Tornado and aiohttp set their own.
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
# aiohttp sets the content length; this proxy has already answered an "Expect: 100-continue".
_NOT_SENT_ON = _HOP_BY_HOP | {"content-length", "expect"}
# Headers that aiohttp would add to a request by itself.
_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_CONNECT_SECONDS = 20
_CHUNK_BYTES = 64 * 1024
_LONGEST_HEADER_BYTES = 64 * 1024
# The proxy reads an upload into memory before it forwards it; the notebook server has a limit of its own (0.5 GB).
_LARGEST_UPLOAD_BYTES = 4 * 1024**3


@functools.cache
def _session() -> aiohttp.ClientSession:
    """The only client of the process; the first call needs a running event loop.

    Tornado's own client is not used, as it limits bodies and cannot cancel a request.
    """
    return aiohttp.ClientSession(
        # No limit, as each progress page needs a connection. Connections are not reused, as servers may close them.
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        auto_decompress=False,
        skip_auto_headers=_NOT_ADDED,
        max_line_size=_LONGEST_HEADER_BYTES,
        max_field_size=_LONGEST_HEADER_BYTES,
    )


class StreamingProxyHandler(ProxyHandler):  # type: ignore[misc] # that package has no types
    """Forwards head and body of a response as they arrive, without a time limit."""

    _forwarding: asyncio.Task[None] | None = None

    async def get_target_url(self, path: str | None) -> str | None:
        """The address of the target, with the path as it was asked for.

        The library decodes a path and encodes it again, and so makes two parts of ``a%2Fb``.
        """
        url = await super().get_target_url(path)
        if url is None:
            return None
        parts, encoded = urllib.parse.urlsplit(url), urllib.parse.quote(path or "").lstrip("/")
        asked = self.request.path.lstrip("/")
        return parts._replace(path=parts.path.removesuffix(encoded) + asked).geturl() if encoded else str(url)

    async def call_proxy(self, path: str | None = None) -> None:
        """Answer a request with the response of its target."""
        url = await self.get_target_url(path)
        if url is None:
            return
        forwarding = self._forwarding = asyncio.create_task(self._forward(self._get_proxy_request(url)))
        await asyncio.wait({forwarding})
        if forwarding.cancelled():
            return
        error = forwarding.exception()
        if error is None:
            self.finish()
        elif self._headers_written:
            # It is too late for an error response, and a response that is cut must not look complete.
            self.proxy.log.error(f"{self.request.method} {self.request.path} was cut: {error!r}")
            self.request.connection.stream.close()
        elif isinstance(error, (aiohttp.ClientError, OSError)):
            # The library's own response for a server that is gone.
            await self.handle_proxy_error(503, error)
        else:
            raise error

    def _request_summary(self) -> str:
        """A request for the log: without the query, which may have a token or data of a login."""
        return f"{self.request.method} {self.request.path} ({self.request.remote_ip})"

    def on_connection_close(self) -> None:
        """Cancel the request to the target when the client has closed its connection."""
        super().on_connection_close()
        if self._forwarding is not None:
            self._forwarding.cancel()

    async def _forward(self, request: HTTPRequest) -> None:
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_SENT_ON]
        async with _session().request(
            request.method,
            URL(request.url, encoded=True),
            headers=headers,
            data=io.BytesIO(request.body) if request.body else None,
            allow_redirects=False,
        ) as answer:
            self._set_head(answer)
            # Each flush waits for the client, so a slow client slows the target down instead of filling memory.
            try:
                await self.flush()
                async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                    self.write(chunk)
                    await self.flush()
            except StreamClosedError:
                return  # the client is gone

    def _set_head(self, answer: aiohttp.ClientResponse) -> None:
        self.set_status(answer.status)
        self.clear_header("Content-Type")
        values: dict[str, list[str]] = {}
        for raw_name, raw_value in answer.raw_headers:
            values.setdefault(raw_name.decode("latin-1").lower(), []).append(raw_value.decode("latin-1"))
        for name in values.keys() - _HOP_BY_HOP:
            self.clear_header(name)
            for value in values[name]:
                self.add_header(name, value)


def main() -> None:
    """Run the library's command with this handler and the limit of uploads."""
    configurable_http_proxy.configproxy.ProxyHandler = StreamingProxyHandler
    # The command builds its servers itself and has no option for the maximum body.
    configurable_http_proxy.cli.HTTPServer = functools.partial(HTTPServer, max_body_size=_LARGEST_UPLOAD_BYTES)
    configurable_http_proxy.cli.main()


if __name__ == "__main__":
    main()
