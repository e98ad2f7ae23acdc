"""The chart: what it is made of, and with a helm at hand what comes out of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly import config
from duly.wire.fleet import PoolView

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "duly"
HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="this machine has no helm: what the chart renders to was not looked at")
SECRETS = ("--set", "secret.existing=duly-secrets")


class TestStructure:
    def test_the_chart_names_the_version_of_duly(self) -> None:
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

        assert chart["apiVersion"] == "v2"
        assert chart["appVersion"] == config.VERSION

    def test_every_value_that_a_template_reads_has_a_default(self) -> None:
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        read = {
            name for path in (CHART / "templates").iterdir() for name in re.findall(r"\$?\.Values\.([\w.]+)", path.read_text(), re.ASCII)
        }

        assert read
        for name in read:
            found: Any = values
            for part in name.rstrip(".").split("."):
                assert part in found, name
                found = found[part]

    def test_every_bracket_of_a_template_is_closed(self) -> None:
        for path in (CHART / "templates").iterdir():
            text = path.read_text()
            assert text.count("{{") == text.count("}}"), path.name
            words = Counter(re.findall(r"{{-? *(if|range|with|define|end)\b", text))
            assert words["end"] == words["if"] + words["range"] + words["with"] + words["define"], path.name

    def test_no_service_puts_settings_into_a_pod(self) -> None:
        """One of the name `duly` would: DULY_PORT=tcp://…, which is no port."""
        for name in ("server.yaml", "workers.yaml"):
            text = (CHART / "templates" / name).read_text()
            assert text.count("      enableServiceLinks: false\n") == text.count("kind: Deployment\n"), name

    def test_the_schema_is_one(self) -> None:
        schema = json.loads((CHART / "values.schema.json").read_text())

        assert set(schema["required"]) <= set(yaml.safe_load((CHART / "values.yaml").read_text()))

    def test_the_scaler_asks_for_what_a_pool_says(self) -> None:
        text = (CHART / "templates" / "workers.yaml").read_text()

        assert "/v1/pools" in text
        assert {"pool", "pending"} <= set(PoolView.__struct_fields__)


def rendered(*words: str) -> dict[tuple[str, str], dict[str, Any]]:
    assert HELM is not None
    command = [HELM, "template", "prod", str(CHART), "--kube-version", "1.29", *words]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {(found["kind"], found["metadata"]["name"]): found for found in yaml.safe_load_all(text) if found}


@needs_helm
class TestRendered:
    def test_helm_has_nothing_to_say(self) -> None:
        assert HELM is not None
        done = subprocess.run([HELM, "lint", "--strict", str(CHART), *SECRETS], capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stdout

    def test_without_a_store_nothing_is_installed(self) -> None:
        with pytest.raises(subprocess.CalledProcessError) as refused:
            rendered()

        assert "secret.values.store" in refused.value.stderr

    def test_servers_are_probed_and_everybody_is_budgeted_and_walled(self) -> None:
        found = rendered(*SECRETS)

        server = found["Deployment", "prod-duly-server"]["spec"]["template"]["spec"]["containers"][0]
        assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert server["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert {name for kind, name in found if kind == "PodDisruptionBudget"} == {"prod-duly-server", "prod-duly-worker-default"}
        assert found["NetworkPolicy", "prod-duly-worker"]["spec"]["ingress"] == []

    def test_nobody_is_root_and_no_secret_is_in_an_environment(self) -> None:
        for (kind, _), found in rendered(*SECRETS).items():
            if kind != "Deployment":
                continue
            pod = found["spec"]["template"]["spec"]
            assert pod["securityContext"]["runAsNonRoot"]
            for container in pod["containers"]:
                assert container["securityContext"]["readOnlyRootFilesystem"]
                assert {"DULY_STORE", "DULY_ADMIN_KEY"}.isdisjoint(one["name"] for one in container["env"])

    def test_a_pod_has_longer_than_its_worker_to_end(self) -> None:
        found = rendered(*SECRETS, "--set", "workers[0].pool=reports,workers[0].graceSeconds=300,workers[0].app=shop.jobs:app")
        pod = found["Deployment", "prod-duly-worker-reports"]["spec"]["template"]["spec"]

        assert pod["terminationGracePeriodSeconds"] == 325
        assert {"name": "DULY_GRACE", "value": "300s"} in pod["containers"][0]["env"]
        assert pod["containers"][0]["args"][:2] == ["worker", "shop.jobs:app"]

    def test_keda_scales_by_what_waits(self) -> None:
        keda = "workers[0].keda.enabled=true,workers[0].keda.keySecret=keda,workers[0].keda.minReplicas=1,workers[0].keda.maxReplicas=9"
        found = rendered(*SECRETS, "--set", f"workers[0].pool=default,{keda},workers[0].keda.targetPending=100")
        [trigger] = found["ScaledObject", "prod-duly-worker-default"]["spec"]["triggers"]

        assert trigger["metadata"]["valueLocation"] == 'items.#(pool=="default").pending'
        assert trigger["metadata"]["url"].endswith(":3859/v1/pools")
        assert "replicas" not in found["Deployment", "prod-duly-worker-default"]["spec"]
        assert found["TriggerAuthentication", "prod-duly-default"]["spec"]["secretTargetRef"][0]["parameter"] == "token"
