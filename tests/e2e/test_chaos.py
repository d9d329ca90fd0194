"""Good and bad clients at the same time: every good request gets its own answer, once, in each protocol."""

import asyncio

import pytest
from harness.benchmarks import modules
from harness.combining import long

pytestmark = [pytest.mark.checkout, pytest.mark.long_on_pypy]

apps, chaos_client = modules("apps", "chaos_client")


@pytest.mark.slow
@pytest.mark.also_inline
@pytest.mark.parametrize(
    "where", ["http://127.0.0.1:0", long("http://unix:{}/s"), "uwsgi://unix:{}/s", "scgi://unix:{}/s"]
)
def test_good_requests_survive_chaos(start_server, tmp_path, where):
    """No good request is lost, crossed, answered twice or run twice while bad clients send nonsense, break off and vanish."""
    bind = where.format(tmp_path)
    server = start_server(apps.token, bind=bind, is_checked=False)
    target = chaos_client.parse_target(bind if "unix" in bind else server.url)
    mix = chaos_client.parse_mix("good=60,slow=4,malformed=9,truncated=9,reset=9,vanish=9")
    seen = asyncio.run(
        chaos_client.run(target, mix, seed=11, clients=20, requests=300, seconds=60.0, timeout_seconds=60.0)
    )
    assert seen["is_sound"], chaos_client.format_report(seen)
    assert all(seen["sent"].values())
    server.wait_until_idle()
