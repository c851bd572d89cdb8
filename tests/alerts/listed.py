"""Each alert has a section in the runbook, tests and a provocation, and asks for metrics that exist."""

import pathlib
import re
import sys

try:
    import yaml
except ImportError as e:
    print(f"alerts_listed: skipped: {e} (python3-yaml)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FUNCTIONS = re.compile(r"_(bucket|count|sum)$")


def main():
    rules = yaml.safe_load((ROOT / "charts/millrace/files/alerts.yaml").read_text())
    alerts = {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}
    metrics = set(re.findall(r'"(millrace_\w+)"', (ROOT / "src/metrics/table.h").read_text()))
    sections = re.findall(r"^## (Millrace\w+)$", (ROOT / "docs/run/runbook.md").read_text(), re.M)
    tests = yaml.safe_load((HERE / "alerts.yaml").read_text())["tests"]
    expected = [case for test in tests for case in test["alert_rule_test"]]
    provoked = (HERE.parent / "runbook/provoke.py").read_text()
    wrong = []
    if sections != list(alerts):
        wrong.append(f"docs/run/runbook.md has {sections}, the rules are {list(alerts)}")
    for name, rule in alerts.items():
        where = f"docs/run/runbook.md#{name.lower()}"
        if rule["annotations"].get("runbook") != where:
            wrong.append(f"{name}: its annotation `runbook` is not {where}")
        if {bool(case["exp_alerts"]) for case in expected if case["alertname"] == name} != {
            True,
            False,
        }:
            wrong.append(f"{name}: alerts.yaml has no test in which it fires, and one without")
        if f'provoked("{name}"' not in provoked:
            wrong.append(f"{name}: tests/runbook/provoke.py does not provoke it")
        for metric, brace in re.findall(r"\b(millrace_(?!cluster)\w+)(\{)?", rule["expr"]):
            if metric not in metrics and FUNCTIONS.sub("", metric) not in metrics:
                wrong.append(f"{name}: there is no metric {metric}")
            if not brace:
                wrong.append(f"{name}: {metric} without braces, where the chart adds labels")
    print("\n".join(wrong) or f"{len(alerts)} alerts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
