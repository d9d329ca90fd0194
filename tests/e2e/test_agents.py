"""Real agents for application performance: their command starts aserve, and the agents watch the app in each worker.

`make agents` installs them in an environment of their own, and runs this; elsewhere the tests are skipped. docs/agents.md shows the results.
"""

import json
import os
import pathlib
import signal
import sys
from typing import NamedTuple

import pytest
from harness.interpreter import NEEDS_LINUX
from harness.workers import Workers

BIN = pathlib.Path(sys.executable).parent
# The app's answer: the process, and whether the agent has a trace of this request.
APP = """\
import json, os
from flask import Flask
app = Flask(__name__)

def is_traced():
    {is_traced}

@app.route("/")
def index():
    return json.dumps([os.getpid(), is_traced()])
"""


class Agent(NamedTuple):
    """How to start an agent."""

    launcher: tuple[str, ...]
    is_traced: str
    env: dict[str, str]


# Nobody collects the agents' data: agents must not mind.
AGENTS = {
    "opentelemetry": Agent(
        ("opentelemetry-instrument",),
        "from opentelemetry import trace; return trace.get_current_span().is_recording()",
        {
            "OTEL_TRACES_EXPORTER": "console",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_SERVICE_NAME": "site",
        },
    ),
    "ddtrace": Agent(
        ("ddtrace-run",),
        "from ddtrace.trace import tracer; return tracer.current_span() is not None",
        {"DD_TRACE_AGENT_URL": "http://127.0.0.1:1", "DD_SERVICE": "site", "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "0"},
    ),
    "newrelic": Agent(
        ("newrelic-admin", "run-program"),
        "from newrelic import agent; return agent.current_transaction() is not None",
        {
            "NEW_RELIC_DEVELOPER_MODE": "true",
            "NEW_RELIC_STARTUP_TIMEOUT": "10",
            "NEW_RELIC_LICENSE_KEY": "0" * 40,
            "NEW_RELIC_APP_NAME": "site",
        },
    ),
}

pytestmark = [pytest.mark.any_parser, pytest.mark.slow, pytest.mark.checkout, NEEDS_LINUX]


class Watched(Workers):
    """The command, without Python's -I: agents come by PYTHONPATH."""

    command = (str(BIN / "aserve"),)


@pytest.fixture(params=AGENTS)
def agent(request):
    """Each installed agent."""
    agent = AGENTS[request.param]
    if not (BIN / agent.launcher[0]).exists():
        pytest.skip(f"{agent.launcher[0]} is not installed; make agents")
    return agent


@pytest.fixture
def start(tmp_path, agent):
    """Start the command under the agent: start(*flags) -> Workers."""
    running = []

    def start(*flags):
        launcher = [str(BIN / agent.launcher[0]), *agent.launcher[1:]]
        env = {**agent.env, "PATH": f"{BIN}:{os.environ['PATH']}"}
        app = APP.format(is_traced=agent.is_traced)
        bind = ("--bind", f"unix:{tmp_path}/s")
        running.append(Watched(tmp_path, app, *bind, *flags, launcher=launcher, **env))
        return running[-1]

    yield start
    for process in running:
        process.end()
        assert not process.faults(())


@pytest.mark.parametrize("flags", [(), ("--preload",), ("--tracing",)], ids=["each", "preload", "tracing"])
def test_two_watched_workers_are_replaced_and_end(start, agent, raw_client, flags):
    """Watched workers begin, serve traced requests, are replaced by SIGHUP and SIGUSR2 and end; nothing hangs or is lost."""
    if "--tracing" in flags and agent.launcher != ("opentelemetry-instrument",):
        pytest.skip("its spans are the SDK's of OpenTelemetry")
    process = start("--workers", "2", *flags)
    seen: set[int] = set()
    for number in (signal.SIGHUP, signal.SIGUSR2, None):
        answers = [json.loads(raw_client(process).fetch("/", "Connection: close").body) for _ in range(8)]
        pids = {pid for pid, _ in answers}
        assert all(is_traced for _, is_traced in answers) and not pids & seen
        seen |= pids
        if number is not None:
            process.signal(number)
            process.wait_for_log(rf"{number.name}: done in", 90)
    before = process.log
    assert process.stop() == 0, before
    assert "has crashed" not in process.log and "could not start" not in process.log
