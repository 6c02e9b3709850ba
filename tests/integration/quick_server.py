"""Stands for a notebook server where only its start and its environment matter: answers within milliseconds."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        secret = ("TOKEN", "SECRET")
        environment = {k: v for k, v in os.environ.items() if not any(word in k for word in secret)}
        body = json.dumps(environment if self.path.endswith("/environment") else {"version": "quick"}).encode()
        self.send_response(200)
        self.send_header("X-JupyterHub-Version", "5")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


url = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
ThreadingHTTPServer((url.hostname or "127.0.0.1", url.port or 8888), Handler).serve_forever()
