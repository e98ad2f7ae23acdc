"""The plain manifests: what they must say, and that they say what the chart says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly import config
from tests.deploy.test_helm import CHART, HELM, SECRETS, rendered

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    found = [one for name in kustomization["resources"] for one in yaml.safe_load_all((FOLDER / name).read_text())]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def pods() -> dict[str, dict[str, Any]]:
    return {name: found["spec"]["template"] for (kind, name), found in manifests().items() if kind == "Deployment"}


def test_every_file_is_named_and_the_version_is_ours() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())

    assert {*kustomization["resources"], "kustomization.yaml"} == {path.name for path in FOLDER.iterdir()}
    assert [image["newTag"] for image in kustomization["images"]] == [config.VERSION]
    for template in pods().values():
        assert [one["image"] for one in template["spec"]["containers"]] == [f"duly:{config.VERSION}"]


def test_selectors_find_the_pods_that_they_are_for() -> None:
    for (kind, name), found in manifests().items():
        spec = found.get("spec", {})
        match kind:
            case "Deployment" | "PodDisruptionBudget":
                wanted = spec["selector"]["matchLabels"]
            case "Service":
                wanted = spec["selector"]
            case "NetworkPolicy":
                wanted = spec["podSelector"]["matchLabels"]
            case _:
                continue
        matching = {pod for pod, template in pods().items() if wanted.items() <= template["metadata"]["labels"].items()}
        meant = {"duly": "duly-server", "duly-worker": "duly-worker-default"}.get(name, name)
        assert matching == {meant}, (kind, name)


def test_servers_are_probed_and_everybody_is_budgeted_and_walled() -> None:
    found = manifests()
    [server] = found["Deployment", "duly-server"]["spec"]["template"]["spec"]["containers"]

    assert {probe: server[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {name for kind, name in found if kind == "PodDisruptionBudget"} == pods().keys()
    assert found["NetworkPolicy", "duly-worker"]["spec"]["ingress"] == []
    assert found["Deployment", "duly-server"]["spec"]["replicas"] >= 2


def test_nobody_is_root_and_no_secret_is_in_an_environment() -> None:
    for template in pods().values():
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        assert not pod["enableServiceLinks"], "the service is called duly"
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert not security["allowPrivilegeEscalation"]
            assert {"DULY_STORE", "DULY_ADMIN_KEY"}.isdisjoint(one["name"] for one in container["env"])
            assert {one["name"].removesuffix("_FILE") for one in container["env"]} <= {setting.name for setting in config.SETTINGS}
            assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_a_pod_has_longer_than_its_worker_to_end() -> None:
    pod = pods()["duly-worker-default"]["spec"]
    [grace] = [one["value"] for one in pod["containers"][0]["env"] if one["name"] == "DULY_GRACE"]

    assert pod["terminationGracePeriodSeconds"] == int(grace.removesuffix("s")) + 25


def test_probes_are_those_of_the_chart() -> None:
    def probes(path: Path) -> list[str]:
        found = re.search(r" startupProbe:\n.*? preStop:\n[^\n]*\n", path.read_text(), re.DOTALL)
        assert found is not None
        return found[0].splitlines()

    assert probes(FOLDER / "server.yaml") == probes(CHART / "templates" / "server.yaml")


@pytest.mark.skipif(HELM is None, reason="this machine has no helm: whether the manifests say what the chart says was not looked at")
def test_they_say_what_the_chart_says() -> None:
    ours, theirs = pods(), {name: one["spec"]["template"] for (kind, name), one in rendered(*SECRETS).items() if kind == "Deployment"}
    for name in ours:
        of_chart = theirs[f"prod-{name}"]["spec"]
        own = ours[name]["spec"]
        for key in ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken", "enableServiceLinks"):
            assert own[key] == of_chart[key], (name, key)
        [mine], [charts] = own["containers"], of_chart["containers"]
        for key in ("args", "resources", "securityContext", "volumeMounts", "env"):
            assert mine[key] == charts[key], (name, key)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe", "lifecycle"):
            assert mine.get(probe) == charts.get(probe), (name, probe)
