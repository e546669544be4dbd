"""A real MCP server: any that speaks over stdio or streamable HTTP, through the official SDK.

A command runs in the sandbox, over its pipes, so that nothing of it outlives us; outside of it only when the world
says `sandbox: false`. Packaged servers are installed on first use (`real.servers`). Which tools there are the server
tells at `reset`: after that they stand in `world.tools`.

What a server answers to a call is the observation, protocol errors among it. A server that does not answer in time is
TIMED_OUT, one that has ended INFRASTRUCTURE_FAILED, and either way the episode is over: what became of the call is not
known. Cancelling a step closes the environment for the same reason. Runs in an asyncio event loop.
"""

import asyncio
import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from worldlm.core.errors import InputError, SetupError, user_path
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Limits, Observation, Origin, Step, Tool, Usage, World
from worldlm.domains.mcp import MCP, McpState, ServerState, result_observation, server_state
from worldlm.real.episode import Episode
from worldlm.real.sandbox import Bind, Ended, program_plan
from worldlm.real.servers import launch, package
from worldlm.real.surroundings import HERE, Surroundings
from worldlm.real.worker import Pipes, pipe_streams

try:
    import anyio
    import httpx2
    from mcp import Client, MCPError
    from mcp.client.session import ClientRequestContext
    from mcp.client.stdio import get_default_environment
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.message import SessionMessage
    from mcp_types import (
        CONNECTION_CLOSED,
        CallToolRequest,
        CallToolRequestParams,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        Implementation,
        InputRequiredResult,
        PaginatedRequestParams,
        jsonrpc_message_adapter,
    )
    from pydantic import TypeAdapter, ValidationError
except ImportError as error:
    raise SetupError(f"real MCP servers need the MCP SDK ({error}): pip install 'worldlm[real]'") from error

CONNECT_SECONDS = 60.0
"""How long a server may take to start (the world's set-up commands included) and to shake hands."""
LIST_SECONDS = 60.0
"""How long it may take to list its tools, all pages together."""
CLOSE_SECONDS = 5.0
ROUNDS = 10
"""How often one call may ask for input before it is answered."""

Streams = Any
"""The SDK's pair of a read and a write stream of messages."""
_RAW: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NO_PROGRAM = re.compile(r"\S+: \d+: exec: (.+: (?:not found|Permission denied))")
"""What the sandbox's shell says of a command that it cannot run."""


# Servers.


class _Server(Protocol):
    """A server that we started, or one that is somewhere."""

    junk: int
    parting: str
    """What becomes of it when we give it up, in words."""

    def transport(self) -> AbstractAsyncContextManager[Streams]:
        """Its messages, both ways."""
        ...

    def gone(self) -> tuple[Outcome, str] | None:
        """How it ended, in words; None while it is there."""
        ...

    def kill(self) -> None:
        """End it, now; `close` must still be called."""
        ...

    async def close(self) -> None:
        """End it and wait until it is gone. May be called twice."""
        ...


class _Piped:
    """A server at the end of two pipes: a message is a line."""

    parting = "the server was ended"

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.junk = 0
        self.silent = False
        """Whether its output has ended."""
        self._reader = reader
        self._writer = writer

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Streams]:
        incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with messages, outbox, anyio.create_task_group() as group:
            group.start_soon(self._read, incoming)
            group.start_soon(self._write, outgoing)
            try:
                yield messages, outbox
            finally:
                group.cancel_scope.cancel()

    async def _read(self, incoming: Any) -> None:
        async with incoming:
            with contextlib.suppress(ValueError, anyio.BrokenResourceError):  # an endless line; nobody listens
                while line := await self._reader.readline():
                    if (message := self._message(line)) is not None:
                        await incoming.send(SessionMessage(message))
            self.silent = True

    def _message(self, line: bytes) -> Any:
        """The message of a line; what libraries print there besides is counted and passed over."""
        start = 0
        while start >= 0:
            try:
                return jsonrpc_message_adapter.validate_json(line[start:], by_name=False)
            except ValueError:
                self.junk += start == 0 and bool(line.strip())
                start = line.find(b'{"', start + 1)  # printed without an end of line, before a message
        return None

    async def _write(self, outgoing: Any) -> None:
        async with outgoing:
            async for item in outgoing:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    self._writer.write(text.encode() + b"\n")
                    await self._writer.drain()
                except OSError:
                    return  # its input is closed: that it has ended, the reader finds


class _Sandboxed(_Piped):
    """A command in the sandbox."""

    def __init__(self, pipes: Pipes):
        super().__init__(pipes.reader, pipes.writer)
        self._pipes = pipes

    def gone(self) -> tuple[Outcome, str] | None:
        ended = self._pipes.sandbox.ended
        if ended is Ended.TIME:
            return Outcome.TIMED_OUT, f"{ended.value}; everything in the sandbox was ended"
        if ended is Ended.MEMORY:
            return Outcome.INFRASTRUCTURE_FAILED, ended.value
        if ended is None and not self.silent:
            return None
        return Outcome.INFRASTRUCTURE_FAILED, _ended(self._pipes.sandbox.errors(last=True))

    def kill(self) -> None:
        self._pipes.kill()

    async def close(self) -> None:
        await self._pipes.close()


class _Own(_Piped):
    """A command of the user's, outside of the sandbox: a process group that is killed at close.

    Should we be killed ourselves, its first process is ended with us (by the kernel, where setpriv is there to ask).
    """

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        stderr: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        transports: tuple[asyncio.BaseTransport, ...],
    ):
        super().__init__(reader, writer)
        self._process = process
        self._stderr = stderr
        self._transports = transports
        self._closed = False

    @classmethod
    async def start(cls, command: tuple[str, ...], variables: Mapping[str, str]) -> "_Own":
        stderr = os.memfd_create("stderr")
        try:
            process = _spawn(command, {**get_default_environment(), **variables}, stderr)
        except OSError as error:
            os.close(stderr)
            raise SetupError(f"cannot start the server {command[0]!r}: {error.strerror or error}") from error
        assert process.stdout is not None
        assert process.stdin is not None
        reader, writer, transports = await pipe_streams(process.stdout.fileno(), process.stdin.fileno())
        return cls(process, stderr, reader, writer, transports)

    def gone(self) -> tuple[Outcome, str] | None:
        if not self.silent and self._process.poll() is None:
            return None
        start = max(0, os.fstat(self._stderr).st_size - 4096) if not self._closed else 0
        told = "" if self._closed else os.pread(self._stderr, 4096, start).decode("utf-8", "replace")
        return Outcome.INFRASTRUCTURE_FAILED, _ended(told)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.kill()
        for transport in self._transports:
            if not transport.is_closing():
                transport.abort() if isinstance(transport, asyncio.WriteTransport) else transport.close()
        await asyncio.sleep(0)  # a transport closes its pipe in the loop's next round
        await asyncio.get_running_loop().run_in_executor(None, self._process.wait, CLOSE_SECONDS)
        for file in (self._process.stdin, self._process.stdout):
            if file is not None:
                file.close()
        os.close(self._stderr)


def _spawn(command: tuple[str, ...], environment: dict[str, str], stderr: int) -> "subprocess.Popen[bytes]":
    # In this thread: it is the end of the thread that started it on which the kernel ends it.
    tied = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
    if tied and shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return subprocess.Popen(
        [*tied, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=environment,
        bufsize=0,
        start_new_session=True,
    )


class _Remote:
    """A server that runs somewhere and speaks streamable HTTP."""

    parting = "the connection was given up"

    def __init__(self, url: str, headers: Mapping[str, str]):
        self.junk = 0
        self._url = url
        self._headers = dict(headers)
        self._refused = ""

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Streams]:
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)  # how long an answer may take, the caller knows
        hooks = {"response": [self._look]}
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=timeout, event_hooks=hooks) as client,
            streamable_http_client(self._url, http_client=client) as streams,
        ):
            yield streams

    async def _look(self, response: httpx2.Response) -> None:
        """A refusal without words of the protocol is nothing that the tool said."""
        spoken = response.headers.get("content-type", "").startswith("application/json")
        if response.status_code >= 400 and response.request.method == "POST" and not spoken:
            self._refused = f"the server answered HTTP {response.status_code} {response.reason_phrase}".strip()

    def gone(self) -> tuple[Outcome, str] | None:
        return (Outcome.INFRASTRUCTURE_FAILED, self._refused) if self._refused else None

    def forget(self) -> None:
        """Forget what was refused before (a handshake tries what only newer servers know)."""
        self._refused = ""

    def kill(self) -> None:
        pass

    async def close(self) -> None:
        pass


def _ended(stderr: str) -> str:
    told = [line.strip() for line in stderr.splitlines() if line.strip()]
    if told and (missing := _NO_PROGRAM.fullmatch(told[-1])):
        return f"the server's command cannot be started: {missing[1]}"
    return f"the server has ended: {told[-1]}" if told else "the server has ended without a word"


# A session.


class _Session:
    """A conversation with a server.

    A task of its own holds it, because the SDK's scopes must be left in the task that entered them.
    """

    def __init__(self, server: _Server):
        self.server = server
        self.client: Client | None = None
        self.error: BaseException | None = None
        self._ready = asyncio.Event()
        self._leave = asyncio.Event()
        self._task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        try:
            client = Client(
                self.server.transport(),
                cache=None,
                client_info=Implementation(name="worldlm", version=version("worldlm")),
                elicitation_callback=_decline,
            )
            async with client:
                self.client = client
                self._ready.set()
                await self._leave.wait()
        except Exception as error:
            self.error = error
        finally:
            self._ready.set()

    async def connect(self) -> Client:
        """Wait for the handshake. Raises SetupError."""
        await self._ready.wait()
        if self.client is None or self.error:
            raise SetupError(f"the MCP server did not start: {self.why()}")
        return self.client

    def over(self) -> tuple[Outcome, str] | None:
        """How the conversation ended; None while it goes on."""
        if gone := self.server.gone():
            return gone
        return (Outcome.INFRASTRUCTURE_FAILED, self.why()) if self._task.done() else None

    def why(self) -> str:
        """What ended it, in words."""
        if gone := self.server.gone():
            return gone[1]
        return f"the connection broke: {_leaf(self.error)}" if self.error else "the connection was closed"

    async def settled(self, seconds: float) -> None:
        """Give a connection that has just broken the time to say so."""
        await asyncio.wait({self._task}, timeout=seconds)

    async def close(self) -> None:
        """End the server and the session. May be called twice."""
        self.server.kill()
        self._leave.set()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
        if not done:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
        await self.server.close()


def _leaf(error: BaseException | None) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".removesuffix(": ")


async def _decline(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Nobody is there who could fill in a form."""
    return ElicitResult(action="decline")


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call, as it came: whether it keeps the tool's schema is not for us to judge."""
    session, answers, state = client.session, None, None
    for _ in range(ROUNDS):
        params = CallToolRequestParams(name=name, arguments=arguments, input_responses=answers, request_state=state)
        raw: dict[str, Any] = await session.send_request(CallToolRequest(params=params), _RAW)
        if raw.get("resultType") != "input_required":
            return raw
        asked = InputRequiredResult.model_validate(raw, by_name=False)
        answers, state = {}, asked.request_state
        for key, request in (asked.input_requests or {}).items():
            answer = await session.dispatch_input_request(
                ClientRequestContext(session=session, request_id=key), request
            )
            if isinstance(answer, ErrorData):
                raise MCPError.from_error_data(answer)
            answers[key] = answer
        if not answers:
            await asyncio.sleep(0.1)
    raise MCPError(CONNECTION_CLOSED, f"the tool asked for input {ROUNDS} times")


async def _list(client: Client) -> tuple[Tool, ...]:
    """The server's tools, page by page to the end."""
    found: list[Tool] = []
    cursors: set[str] = set()
    cursor: str | None = None
    while True:
        page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        found += [
            Tool(
                name=tool.name,
                description=tool.description or "",
                parameters=tool.input_schema,
                output_schema=tool.output_schema,
            )
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)
        if cursor in cursors:
            raise SetupError(f"the server's list of tools has no end: the page {cursor!r} comes twice")
        cursors.add(cursor)


# The environment.


class McpEnvironment:
    """Satisfies `Environment` and `HasOrigin`. Steps run one at a time."""

    def __init__(self, world: World, around: Surroundings = HERE):
        """Cheap: nothing starts before `reset`. Raises InputError where the world names no server.

        `around`: another clock, process ids and host than usual, for a server in the sandbox.
        """
        if world.domain != "mcp":
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not 'mcp'")
        self._state = server_state(world)
        if self._state.server.package:
            package(self._state.server.package)
        self._world = world
        self._around = around
        self._view = _view(world, self._state, (), None)
        self._limits: Limits = MCP.limits.model_copy(update=world.limits.model_dump(exclude_none=True))
        self._origin = Origin(kind="real", source=_source(self._state.server))
        self._lock = asyncio.Lock()
        self._session: _Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._episode = Episode(MCP, self._limits)
        self._failure: Step | None = None
        self._deadline = 0.0
        self._junk = 0

    @property
    def world(self) -> World:
        """The agent's view; from `reset` on with the server's tools, and without secrets and paths of this machine."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Real: which server, in which version, over which version of the protocol."""
        return self._origin

    @property
    def junk_lines(self) -> int:
        """Lines that the server wrote to its standard output and that were no messages."""
        return self._session.server.junk if self._session else self._junk

    async def reset(self, seed: int | None = None) -> Observation:
        """Start the server and list its tools; the first observation names them. (Nothing depends on the seed.)

        Raises SetupError when a library or program is missing, or the server does not start, does not answer in time or
        cannot be reached; InputError for what is wrong with the world.
        """
        self._abandon()  # a step or another start that is under way ends by this
        async with self._lock:
            await self.close()
            session = _Session(await self._start())
            self._session, self._loop = session, asyncio.get_running_loop()
            self._episode, self._failure = Episode(MCP, self._limits), None
            self._deadline = time.monotonic() + (self._limits.episode_seconds or float("inf"))
            try:
                client, tools = await self._meet(session)
            except BaseException:
                self._abandon()
                raise
            info = client.server_info
            self._view = _view(self._world, self._state, tools, client.instructions)
            versions = [*([info.version] if info and info.version else []), f"protocol {client.protocol_version}"]
            self._origin = Origin(
                kind="real",
                source=_source(self._state.server, info.name if info else ""),
                version=", ".join(versions),
                licence=package(name).licence if (name := self._state.server.package) else "",
            )
            return MCP.initial_observation(self._view)

    async def _start(self) -> _Server:
        spec, who = self._state.server, "a real MCP server"
        variables = {name: _expanded(value) for name, value in spec.env.items()}
        if spec.url is not None:
            headers = {name: _expanded(value) for name, value in spec.headers.items()}
            return _Remote(_expanded(spec.url), headers)
        if not spec.sandbox:
            return await _Own.start(spec.command, variables)
        command, binds, files = spec.command, _mounts(spec.mounts), None
        if spec.package is not None:
            start = await asyncio.to_thread(launch, spec.package, spec.args, spec.options)
            command, binds, files = start.command, start.binds, start.files
            variables = {**start.environment, **variables}
        plan = program_plan(
            command,
            self._state,
            self._limits,
            files=files,
            binds=binds,
            environment=variables,
            network=spec.network,
            around=self._around,
        )
        return _Sandboxed(await Pipes.open(plan, self._limits, who))

    async def _meet(self, session: _Session) -> tuple[Client, tuple[Tool, ...]]:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                client = await session.connect()
        except TimeoutError:
            raise SetupError(f"the MCP server did not answer within {CONNECT_SECONDS:g} s") from None
        try:
            async with asyncio.timeout(LIST_SECONDS):
                return client, await _list(client)
        except TimeoutError:
            raise SetupError(f"the MCP server did not list its tools within {LIST_SECONDS:g} s") from None
        except (MCPError, ValidationError, RuntimeError) as error:
            await session.settled(0.1)
            why = session.why() if session.over() else _first_line(error)
            raise SetupError(f"the MCP server did not list its tools: {why}") from error

    async def step(self, action: str) -> Step:
        """Call the tool and wait for its result."""
        async with self._lock:
            session = self._session
            if self._failure is not None:
                return self._failure
            if session is None or session.client is None:
                raise InputError("the environment has not been reset (or is closed): call reset first")
            if self._loop is not asyncio.get_running_loop():
                raise InputError("the environment was reset in another event loop: reset it in this one")
            call = self._episode.read(action, self._view)
            if isinstance(call, Step):
                return call
            started = time.monotonic()
            try:
                step = await self._ask(session, session.client, call.name, call.arguments)
            except BaseException:
                # The call is made and its answer is lost: there is no way back to before the step.
                self._abandon()
                raise
            step = step.model_copy(update={"usage": Usage(seconds=time.monotonic() - started)})
            return step if step.observation is None else self._episode.finish(action, step)

    async def _ask(self, session: _Session, client: Client, name: str, arguments: dict[str, Any]) -> Step:
        seconds = min(self._limits.step_seconds or float("inf"), self._deadline - time.monotonic())
        if isinstance(session.server, _Remote):
            session.server.forget()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                result = await _call(client, name, arguments)
        except TimeoutError:
            late = "the episode's time is over" if time.monotonic() >= self._deadline else f"no result in {seconds:g} s"
            return self._broken(session, Outcome.TIMED_OUT, f"{name}: {late}; {session.server.parting}")
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await session.settled(0.1)
            if over := session.over():
                return self._broken(session, *over)
            if self._session is not session:
                return self._broken(session, Outcome.CANCELLED, "the environment was closed during the step")
            # The server's answer to the call, though not in the form of a result.
            return Step(observation=Observation(text=error.message, is_error=True))
        except ValidationError as error:
            return _unreadable(name, _first_line(error))
        except Exception as error:  # whatever the connection is made of
            await session.settled(0.1)
            return self._broken(session, *(session.over() or (Outcome.INFRASTRUCTURE_FAILED, _leaf(error))))
        try:
            return Step(observation=result_observation(result))
        except ValueError as error:
            return _unreadable(name, _first_line(error))

    def _broken(self, session: _Session, outcome: Outcome, why: str) -> Step:
        """The episode is over: further steps say so in the same words."""
        if self._session is not session:
            outcome, why = Outcome.CANCELLED, "the environment was closed during the step"
        step = Step(observation=None, outcome=outcome, detail=why, truncated=True)
        if self._session is session:
            self._abandon()
            self._failure = step
        return step

    async def close(self) -> None:
        """End the server and the session with it, and wait until they are gone."""
        self._failure = None
        self._abandon()
        if self._leaving is not None and self._leaving.get_loop() is asyncio.get_running_loop():
            await asyncio.shield(self._leaving)

    def _abandon(self) -> None:
        """End the server at once; `close` waits until nothing is left of it."""
        session, self._session = self._session, None
        if session is not None:
            self._junk = session.server.junk
            session.server.kill()
            before = self._leaving
            self._leaving = asyncio.get_running_loop().create_task(_leave(session, before))


async def _leave(session: _Session, before: "asyncio.Task[None] | None") -> None:
    if before is not None:
        await asyncio.wait({before})
    await session.close()


def _unreadable(name: str, why: str) -> Step:
    detail = f"{name}: the server's answer is no result of the protocol: {why}"
    return Step(observation=None, outcome=Outcome.INFRASTRUCTURE_FAILED, detail=detail)


def _first_line(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (str(error).splitlines() or [type(error).__name__])[0]


def _expanded(text: str) -> str:
    """`${NAME}` replaced by our environment's variable. Raises InputError where there is none."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise InputError(f"initial_state.server: the environment variable {match[1]} is not set")
        return found

    return _VARIABLE.sub(value, text)


def _mounts(mounts: Mapping[str, str]) -> tuple[Bind, ...]:
    binds = []
    for inside, ours in mounts.items():
        host = user_path(ours).resolve()
        if not inside.startswith("/") or not host.exists():
            place = f"initial_state.server.mounts.{inside}"
            raise InputError(
                f"{place}: there is no {ours}" if inside.startswith("/") else f"{place}: the place inside begins with /"
            )
        binds.append(Bind(host, inside))
    return tuple(binds)


def _source(spec: ServerState, name: str = "") -> str:
    kind = "streamable HTTP" if spec.url else "stdio"
    return f"MCP server {name or spec.package or 'of a world'} over {kind}"


def _view(world: World, state: McpState, tools: tuple[Tool, ...], instructions: str | None) -> World:
    """The world as an agent and a model may see it: with the tools; no secret, no path of this machine."""
    view, spec = world.agent_view(), state.server
    shown = spec.model_dump(mode="json", exclude_defaults=True, exclude={"env", "headers", "mounts"})
    if spec.url is not None:
        parts = urlsplit(spec.url)
        shown["url"] = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    if not spec.sandbox:
        shown["command"] = [spec.command[0].rpartition("/")[2]]
    assert isinstance(view.initial_state, dict)
    told = f"The server's own words: {instructions.strip()}" if instructions else ""
    return view.model_copy(
        update={
            "tools": tools or view.tools,
            "context": "\n\n".join(filter(None, (view.context.strip(), told))),
            "initial_state": {**view.initial_state, "server": shown},
        }
    )


__all__ = ["McpEnvironment"]
