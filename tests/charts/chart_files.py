"""The chart's values obey its schema, and what it renders names options and metrics that exist."""

import json
import pathlib
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError as e:
    print(f"chart_files: skipped: {e} (python3-yaml, python3-jsonschema)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/millrace"
GOLDEN = ROOT / "charts/check/golden"

# Wired by the chart before the program has it.
METRICS_TO_COME = {"millrace_workers_desired"}


def options():
    """
    Program -> names of its options, as docs/run/options.md lists them (a test compares that with the program).
    """
    programs = {}
    for line in (ROOT / "docs/run/options.md").read_text().splitlines():
        if line.startswith("## millrace "):
            names = set()
            for program in line.removeprefix("## millrace ").split(", "):
                programs[program] = names
        elif line.startswith("| `--"):
            names.add(re.match(r"\| `--([a-z-]+)", line).group(1))
    return programs


def metrics():
    """
    Names of docs/run/metrics.md (a test compares that with the table), of histograms those of their series.
    """
    names = set()
    for name, kind in re.findall(
        r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs/run/metrics.md").read_text(), re.M
    ):
        names.update(
            {f"{name}_{s}" for s in ("bucket", "sum", "count")} if kind == "histogram" else {name}
        )
    return names


def check_values():
    """
    Sentences about values files that the schema refuses, and names that only one of the two knows.
    """
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    files = [CHART / "values.yaml", *sorted((CHART / "ci").glob("*.yaml"))]
    texts = [(file.name, file.read_text()) for file in files]
    page = (ROOT / "docs/run/kubernetes.md").read_text()
    texts += [
        ("kubernetes.md", text) for text in re.findall(r"^ *```yaml\n(.*?)```", page, re.M | re.S)
    ]
    for name, text in texts:
        for e in validator.iter_errors(yaml.safe_load(text)):
            yield f"{name}: {'.'.join(map(str, e.absolute_path))}: {e.message}"
    top = set(schema["properties"]) - {"global"}
    for name in sorted(top ^ set(values)):
        yield f"'{name}' is in only one of values.yaml and values.schema.json"
    for part in ("dispatcher", "workers"):
        known = (
            schema["properties"][part].get("properties")
            or schema["definitions"][part]["properties"]
        )
        for name in sorted(set(known) ^ set(values[part])):
            yield f"'{part}.{name}' is in only one of values.yaml and values.schema.json"


def check_options(text, file):
    """
    Sentences about options of a rendering that its program does not have.
    """
    known = options()
    for document in yaml.safe_load_all(text):
        spec = (document or {}).get("spec") or {}
        pod = spec.get("template", {}).get("spec") if "template" in spec else spec
        for container in (pod or {}).get("containers", ()):
            program, *args = container["args"]
            for arg in args:
                name = re.match(r"--([a-z-]+)", arg).group(1)
                if name not in known[program]:
                    yield f"{file}: millrace {program} has no option --{name}"


def check_metrics(text, file):
    """
    Sentences about metrics that no server has.
    """
    known = metrics() | METRICS_TO_COME
    expressions = re.findall(r'"expr": (".*")|(?:expr|query|valueLocation): (.*)', text)
    for pair in expressions:
        for name in re.findall(r"\b(?:millrace|process)_\w+", "".join(pair)):
            if name not in known and name != "millrace_cluster":
                yield f"{file}: there is no metric {name}"


def check_version():
    """
    A sentence, if the chart runs another version than this tree's.
    """
    version = re.search(
        r"project\(millrace VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()
    ).group(1)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    if chart["appVersion"] != version:
        yield f"Chart.yaml: appVersion {chart['appVersion']}, the project is at {version}"


def main():
    wrong = [*check_values(), *check_version()]
    files = sorted(GOLDEN.glob("*.yaml"))
    for file in files:
        text = file.read_text()
        wrong += [*check_options(text, file.name), *check_metrics(text, file.name)]
    for line in wrong:
        print(f"chart_files: {line}", file=sys.stderr)
    if not files:
        print(f"chart_files: {GOLDEN} is empty", file=sys.stderr)
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
