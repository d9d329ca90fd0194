"""The manifests of examples/kubernetes: Kubernetes' API knows each field, the files fit together, and the probes are answered."""

import copy
import pathlib
import re

import pytest
import yaml
from harness import apps
from harness.front import DOCS, Page
from harness.interpreter import ONCE
from harness.kubernetes import check_manifest

from aserve.command.flags import parse_args
from aserve.features import Config

pytestmark = [ONCE, pytest.mark.checkout, pytest.mark.one_way]

FOLDER = pathlib.Path(DOCS).parent / "examples/kubernetes"
NAMES = ["autoscaler", "deployment", "disruption", "network", "service"]


def manifest(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def arguments():
    """Return the arguments of the container's command, as settings."""
    container = manifest("deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][0] == "aserve"
    args = parse_args([*container["command"][1:], *container["args"]])
    args.pop("app")
    return {name: value for name, value in args.items() if name in Config.__dataclass_fields__}


def number_of(quantity):
    """Return Kubernetes' quantity of octets as a number."""
    amount, unit = re.fullmatch(r"(\d+)([KMG]i)", quantity).groups()
    return int(amount) << {"Ki": 10, "Mi": 20, "Gi": 30}[unit]


def test_all_are_tested():
    assert sorted(path.name for path in FOLDER.iterdir()) == [f"{name}.yaml" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_the_api_knows_it(name):
    pytest.importorskip("lightkube.models")
    check_manifest(manifest(name))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda spec: spec.update(replica=2), "DeploymentSpec has no ['replica']"),
        (lambda spec: spec.pop("selector"), "DeploymentSpec must have ['selector']"),
        (lambda spec: spec.update(replicas="2"), "Deployment.spec.replicas: '2' is no <class 'int'>"),
        (lambda spec: spec["selector"].update(matchLabels=["a"]), "selector.matchLabels: ['a'] is not an object"),
        (
            lambda spec: spec["template"]["metadata"]["annotations"].update(port=9100),
            "annotations.port: 9100 is no <class 'str'>",
        ),
        (lambda spec: spec["template"]["spec"].update(containers={}), "spec.containers: {} is not a list"),
        (lambda spec: spec["strategy"]["rollingUpdate"].update(maxSurge=True), "maxSurge: True is not one of"),
    ],
    ids=range(7),
)
def test_what_the_api_does_not_know(spoil, why):
    """A mistake in a manifest is found."""
    pytest.importorskip("lightkube.models")
    spoiled = copy.deepcopy(manifest("deployment"))
    spoil(spoiled["spec"])
    with pytest.raises(AssertionError) as found:
        check_manifest(spoiled)
    assert why in str(found.value)


def test_they_fit_together():
    """All speak of the same pods and ports; the autoscaler of the deployment, and of the metric of docs/metrics.md."""
    deployment, network = manifest("deployment"), manifest("network")
    template = deployment["spec"]["template"]
    labels, (container,) = template["metadata"]["labels"], template["spec"]["containers"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        template["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        manifest("service")["spec"]["selector"],
        manifest("disruption")["spec"]["selector"]["matchLabels"],
        network["spec"]["podSelector"]["matchLabels"],
    ]
    assert selectors == [labels] * 5
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert manifest("service")["spec"]["ports"][0]["targetPort"] in ports
    assert [rule["ports"][0]["port"] for rule in network["spec"]["ingress"]] == [*ports]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"])
    settings = arguments()
    assert settings["bind"] == [f":{ports['http']}"] and settings["metrics"] == f":{ports['metrics']}"
    autoscaler = manifest("autoscaler")
    target = autoscaler["spec"]["scaleTargetRef"]
    assert target == {
        "apiVersion": deployment["apiVersion"],
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
    }
    page = (DOCS / "metrics.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)]
    assert autoscaler in blocks


def test_the_page_shows_the_probes():
    """The lines of docs/containers.md stand in the deployment."""
    shown = yaml.safe_load(Page("containers").block("Kubernetes", "yaml"))["spec"]
    spec = manifest("deployment")["spec"]["template"]["spec"]
    [ours], [theirs] = shown.pop("containers"), spec["containers"]
    assert {*ours.pop("args")} <= {*theirs["args"]}
    assert all(port in theirs["ports"] for port in ours.pop("ports"))
    assert shown.items() <= spec.items() and ours.items() <= theirs.items()


def test_room_and_patience():
    """The grace is longer than a drain; bodies on the disk fit into its volume."""
    spec = manifest("deployment")["spec"]["template"]["spec"]
    config = Config(**arguments())
    assert spec["terminationGracePeriodSeconds"] > config.drain_delay_seconds + config.drain_seconds
    assert config.drain_delay_seconds > 0
    size = number_of(spec["volumes"][0]["emptyDir"]["sizeLimit"])
    assert 0 < config.body_spool_total_bytes + config.response_spool_total_bytes < size


def test_a_server_answers_the_probes(start_server, raw_client):
    settings = {**arguments(), "bind": "127.0.0.1:0", "drain_delay_seconds": 0, "access_log": None}
    settings.pop("metrics")
    server = start_server(apps.hello, **settings)
    (container,) = manifest("deployment")["spec"]["template"]["spec"]["containers"]
    for kind, body in (("startup", b"live\n"), ("liveness", b"live\n"), ("readiness", b"ready\n")):
        probe = container[f"{kind}Probe"]["httpGet"]
        reply = raw_client(server).fetch(probe["path"])
        assert (probe["port"], reply.status, reply.body) == ("http", 200, body)
