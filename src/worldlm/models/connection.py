"""The connection to a server of models: JSON asked by HTTP, with what the environment says of proxies and certificates.

It is one session of aiohttp for each event loop (connections cannot be shared between loops), without a bound on the
number of connections. What answers with an error is a `StatusError`; what does not answer raises an error of aiohttp's
own or an OSError: `is_transport` knows them, and `error_words` tells them.
"""

import asyncio
import base64
import functools
import io
import ipaddress
import json
import os
import ssl
import weakref
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from worldlm.core.errors import InputError
from worldlm.models.wire import error_message

if TYPE_CHECKING:
    import aiohttp

IDLE_S = 5.0
"""How long a connection is kept for the next call: as long as most servers keep theirs."""
MAX_REDIRECTS = 20
HEADER_BYTES = 65_536
"""What a header line of an answer may have. (Policies that gateways send are longer than aiohttp's 8 KiB.)"""
WHOLE_BYTES = 2**20
"""From here on a body is sent in pieces, between which others get their turn."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where distributions keep their certificates: a Python that was built elsewhere may look in another place."""


class StatusError(Exception):
    """An answer of a server that is an error. `status` 0: it came inside a stream of status 200."""

    def __init__(self, status: int, content: Any, headers: Mapping[str, str] | None = None, reason: str = ""):
        """`content` is the answer's JSON, or its text."""
        body = content.get("error", content) if isinstance(content, Mapping) else content
        super().__init__(error_message(body) if body else reason or "no message")
        self.status = status
        self.headers = headers or {}
        self.body = body
        """What is under `error`, else the whole."""
        self.code = str(body.get("code")) if isinstance(body, Mapping) else ""


class Connection:
    """Asks one server. Nothing is connected before the first question."""

    def __init__(self, base_url: str, key: str, *, connect_s: float, read_s: float | None):
        """`connect_s` bounds making a connection; `read_s` the silence before and in an answer (None: no bound)."""
        import aiohttp  # takes a while: here, and not within the deadline of the first call

        parts = urlsplit(base_url)
        base = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        self._base, self._query = urlunsplit(base), f"?{parts.query}" if parts.query else ""
        self._headers = {"authorization": _authorization(parts.username, parts.password, key), **_environment_headers()}
        self._connect_s = connect_s
        self._read_s = read_s
        self._open: tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession, weakref.finalize[Any, Any]] | None = None

    async def post(self, path: str, body: Mapping[str, Any]) -> "aiohttp.ClientResponse":
        """Send `body`; the answer, still to be read, once it is one of success. Raises StatusError for any other."""
        import aiohttp

        session = self._session()
        data = _ENCODER.encode(body).encode()
        while True:
            told = SimpleNamespace(reused=False)
            whole = data if len(data) < WHOLE_BYTES else io.BytesIO(data)
            try:
                response = await session.post(
                    self._url(path), data=whole, max_redirects=MAX_REDIRECTS, trace_request_ctx=told
                )
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if told.reused:  # kept from an earlier call, and closed by the server meanwhile: no failure of it
                    continue
                raise
            return await _sound(response)

    async def get(self, path: str) -> Any:
        """The JSON that stands at `path`. Raises StatusError, ValueError."""
        async with await self._session().get(self._url(path), max_redirects=MAX_REDIRECTS) as response:
            return json.loads(await (await _sound(response)).read())

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        opened, self._open = self._open, None
        if opened is None:
            return
        loop, session, abandon = opened
        if loop is asyncio.get_running_loop():
            abandon.detach()
            await session.close()
        else:
            abandon()

    def _url(self, path: str) -> str:
        return f"{self._base}{path}{self._query}"

    def _session(self) -> "aiohttp.ClientSession":
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._open is not None:
            if self._open[0] is loop:
                return self._open[1]
            self._open[2]()
        proxy = proxy_for(self._url(""))
        environment = os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_reuseconn.append(_reused)
        tracing.on_connection_create_start.append(_fresh)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S, ssl=certificates(*environment)),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_s, sock_read=self._read_s),
            headers={
                "user-agent": "worldlm",
                "accept": "application/json",
                "content-type": "application/json",
                **self._headers,
            },
            cookie_jar=aiohttp.CookieJar(unsafe=True),  # also those of servers without a name
            proxy=proxy,
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
            trace_configs=[tracing],
        )
        self._open = (loop, session, weakref.finalize(self, _abandon, session))
        return session


def is_transport(error: Exception) -> bool:
    """Whether a connection failed. (A TimeoutError that is not aiohttp's own is somebody's deadline.)"""
    import aiohttp

    return isinstance(error, aiohttp.ClientError | OSError)


def is_deadline(error: Exception) -> bool:
    """Whether time was up that somebody else set, and not a bound on connecting or on silence."""
    import aiohttp

    return isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError)


def error_words(error: Exception) -> str:
    """An error in one line. What aiohttp says of its own settings, and the URL with its query, are no part of it."""
    import aiohttp

    if isinstance(error, aiohttp.ConnectionTimeoutError):
        words = "no connection came about in time"
    elif isinstance(error, aiohttp.ClientResponseError):
        words = error.message
    elif isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        cause = error.os_error
        words = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror or str(cause)
    else:
        words = str(error.__cause__ or "") or str(error)
    return " ".join(words.split())[:600] or type(error).__name__


async def _sound(response: "aiohttp.ClientResponse") -> "aiohttp.ClientResponse":
    if 200 <= response.status < 300:
        return response
    async with response:
        text = (await response.text(errors="replace")).strip()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = text
    raise StatusError(response.status, content, response.headers, response.reason or "")


async def _reused(session: Any, context: SimpleNamespace, params: Any) -> None:
    if (told := context.trace_request_ctx) is not None:
        told.reused = True


async def _fresh(session: Any, context: SimpleNamespace, params: Any) -> None:
    if (told := context.trace_request_ctx) is not None:
        told.reused = False


def _abandon(session: "aiohttp.ClientSession") -> None:
    """Drop what nobody closed. Collected as it is, aiohttp would write about it to stderr."""
    connector = session.connector
    session.detach()
    if connector is not None:
        connector.__exit__(None, None, None)  # its one way to close that awaits nothing: the loop may be gone


# What the environment says.


def _authorization(user: str | None, password: str | None, key: str) -> str:
    if not user and not password:
        return f"Bearer {key}"
    pair = f"{unquote(user or '')}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _environment_headers() -> dict[str, str]:
    """Headers by the variables of OpenAI's own clients. `OPENAI_CUSTOM_HEADERS` has a line `NAME: VALUE` for each."""
    named = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    headers = {name: value for name, variable in named.items() if (value := os.environ.get(variable))}
    for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return headers


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, and against them NO_PROXY.

    Raises InputError for a proxy that does not speak HTTP.
    """
    from urllib.request import getproxies

    proxies, parts = getproxies(), urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or _is_exempt(parts.hostname or "", parts.port, proxies.get("no", "")):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if (scheme := urlsplit(proxy).scheme) not in ("http", "https"):
        raise InputError(
            f"the environment names a proxy that speaks {scheme} for {parts.hostname} (HTTP_PROXY, HTTPS_PROXY or "
            f"ALL_PROXY): it must be an HTTP proxy; set another, or NO_PROXY={parts.hostname}"
        )
    return proxy


def _is_exempt(host: str, port: int | None, rules: str) -> bool:
    """Whether NO_PROXY has the host: `*`, a domain with all below it, `host:port`, an address or a network."""
    for rule in (part.strip().lower() for part in rules.split(",")):
        if rule == "*":
            return True
        name = rule.removeprefix("*").removeprefix(".")
        if name and any(f".{each}".endswith(f".{name}") for each in (host, f"{host}:{port}")):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(rule.strip("[]"), strict=False):
                return True
        except ValueError:  # a name
            continue
    return False


@functools.cache
def certificates(file: str, folder: str) -> ssl.SSLContext:
    """Whom to trust: those of SSL_CERT_FILE or SSL_CERT_DIR, else the system's. (Reading them takes a while: once.)"""
    if file or folder:
        context = ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    else:
        context = ssl.create_default_context()
        if not context.cert_store_stats()["x509_ca"] and (found := next(filter(os.path.isfile, _CA_FILES), None)):
            context.load_verify_locations(found)
    context.set_alpn_protocols(["http/1.1"])
    return context
