"""h2spec's clauses of HTTP/2 and HPACK, against a server in its own process."""

import subprocess
import xml.etree.ElementTree

from harness.go_programs import go_program, needs_go_programs

pytestmark = needs_go_programs("h2spec")
CASES = 145  # of this version


def test_h2spec_passes_every_case(start_process, localhost, tmp_path):
    """All cases of all suites pass, none is left out, and the server logs no fault."""
    process = start_process(
        "hello", "--bind=https://127.0.0.1:0", f"--certificate={localhost.certificate}", f"--key={localhost.key}",
        "--http2=auto",
    )  # fmt: skip
    port = process.wait_for_log(r"https://127.0.0.1:(\d+)")[1]
    report = tmp_path / "report.xml"
    command = [go_program("h2spec"), "--tls", "--insecure", "--port", port, "--timeout", "20", "--junit-report", report]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    bad = [f"{case.get('package')}: {case.get('classname')}" for case in cases if len(case)]
    assert (bad, len(cases)) == ([], CASES), done.stdout
    process.signal()
    assert process.wait() == 0
