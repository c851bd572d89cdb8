"""Prometheus itself, with the alert rules of the chart, over clusters of the end-to-end tests."""

import json
import pathlib
import subprocess
import urllib.parse
import urllib.request

import yaml

from conftest import free_port, wait_until, with_parent

RULES = pathlib.Path(__file__).parents[2] / "charts/millrace/files/alerts.yaml"


class Prometheus:
    """A Prometheus that looks at its targets each second."""

    def __init__(self, directory):
        self._targets = directory / "targets.json"
        self._targets.write_text("[]")
        self._known = []
        self._address = f"127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "millrace", "file_sd_configs": [{"files": [str(self._targets)]}]}
            ],
        }
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
        groups = yaml.safe_load(RULES.read_text())["groups"]
        self._expressions = {r["alert"]: r["expr"] for group in groups for r in group["rules"]}
        self._log = open(directory / "log", "wb")
        self._process = subprocess.Popen(
            with_parent(
                [
                    "prometheus",
                    f"--config.file={directory / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address={self._address}",
                ]
            ),
            stdout=self._log,
            stderr=self._log,
        )
        wait_until(self._ready, "Prometheus is ready")

    def _ready(self):
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def query(self, expression, cluster):
        """The samples of an expression now that are of a cluster: (labels, value)."""
        query = urllib.parse.urlencode({"query": expression})
        url = f"http://{self._address}/api/v1/query?{query}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            result = json.load(answer)["data"]["result"]
        return [
            (sample["metric"], float(sample["value"][1]))
            for sample in result
            if sample["metric"].get("millrace_cluster") == cluster.name
        ]

    def watch(self, cluster):
        """Look at all servers of a cluster. Returns when it has seen each of them twice."""
        servers = cluster.dispatchers + cluster.workers
        targets = [server.metrics_address for server in servers]
        self._known.append({"targets": targets, "labels": {"millrace_cluster": cluster.name}})
        scratch = self._targets.with_suffix(".part")
        scratch.write_text(json.dumps(self._known))
        scratch.rename(self._targets)
        wait_until(
            lambda: [
                seen
                for _, seen in self.query("count_over_time(millrace_build_info[1m])", cluster)
                if seen >= 2
            ][len(targets) - 1 :],
            "Prometheus has seen the cluster",
        )

    def alert(self, name, cluster):
        """Whether the condition of an alert holds for a cluster: the samples that say so."""
        return self.query(self._expressions[name], cluster)

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._log.close()
