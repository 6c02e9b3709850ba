"""The Python ``configurable-http-proxy``, made to pass answers on as they come.

By itself it waits for the end of an answer before it forwards the first byte, and gives up after 20 seconds: the
progress page of a server that waits for a device would show nothing, and then an error. The library has no hook, so
its handler is replaced. Run as ``python -m dra_spawner.devcluster.demo.streaming_proxy`` with its own options.
"""

from __future__ import annotations

import configurable_http_proxy.configproxy
from configurable_http_proxy.cli import main
from configurable_http_proxy.handlers import ProxyHandler
from tornado.httpclient import AsyncHTTPClient

# Of RFC 9110: about one connection, not about the answer. Tornado sets its own.
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
# Tornado's client does ten requests at a time, and every progress page is one that lasts.
_MOST_REQUESTS = 1000


class StreamingProxyHandler(ProxyHandler):
    """Forwards head and body of an answer as they arrive, for as long as they take."""

    async def call_proxy(self, path: str | None = None) -> None:
        """Answer a request with what its target says."""
        url = await self.get_target_url(path)
        if url is None:
            return
        request = self._get_proxy_request(url)
        request.request_timeout = 0
        request.connect_timeout = 20
        request.decompress_response = False
        request.header_callback = self._take_header
        request.streaming_callback = self._forward
        self._header_values: dict[str, list[str]] = {}
        try:
            response = await AsyncHTTPClient().fetch(request, raise_error=False)
        except Exception as error:
            # The library's own way to say that a server is gone; too late once a part has been sent.
            if not self._headers_written:
                await self.handle_proxy_error(503, error)
            return
        if response.error and response.code == 599:
            if not self._headers_written:
                await self.handle_proxy_error(503, response.error)
            return
        if not self._headers_written:
            self._set_head(has_body=False)
        if not self._finished:
            self.finish()

    def _take_header(self, line: str) -> None:
        text = line.rstrip("\r\n")
        if text.startswith("HTTP/"):
            self._header_values.clear()
            self.set_status(int(text.split(" ", 2)[1]))
        elif ":" in text:
            name, value = text.split(":", 1)
            self._header_values.setdefault(name, []).append(value.strip())

    def _set_head(self, has_body: bool) -> None:
        self.clear_header("Content-Type")
        for name, values in self._header_values.items():
            if name.lower() in _HOP_BY_HOP or (name.lower() == "content-length" and not has_body):
                continue
            self.clear_header(name)
            for value in values:
                self.add_header(name, value)

    def _forward(self, chunk: bytes) -> None:
        if self.request.connection.stream.closed():  # nobody reads any more
            return
        if not self._headers_written:
            self._set_head(has_body=True)
        self.write(chunk)
        self.flush()


if __name__ == "__main__":
    AsyncHTTPClient.configure(None, max_clients=_MOST_REQUESTS)
    configurable_http_proxy.configproxy.ProxyHandler = StreamingProxyHandler
    main()
