"""
A strict reader of Prometheus' text format 0.0.4, for tests: what is not as the format wants it is
an AssertionError.
"""

import re
import urllib.error
import urllib.request

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_SUFFIXES = ("_bucket", "_sum", "_count")


def get(address, path="/metrics", timeout=120):
    """(status, body)"""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def _labels(text):
    labels, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, f"labels {text!r} at {at}"
        name, value = match.groups()
        assert name not in labels, f"label {name} twice in {text!r}"
        labels[name] = re.sub(r'\\\\|\\"|\\n', lambda m: _ESCAPES[m[0]], value)
        at = match.end()
        if at < len(text):
            assert text[at] == ",", text
            at += 1
    return labels


class Page:
    """Families of a page; page.value(name, label=...) is one sample."""

    def __init__(self, text):
        assert text.endswith("\n")
        self.types, self.samples = {}, {}
        helped = current = None
        for line in text[:-1].split("\n"):
            if line.startswith("# HELP "):
                helped = line.split(" ", 3)[2]
                assert re.fullmatch(_NAME, helped) and helped not in self.types, line
                assert line.split(" ", 3)[3], line
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name == helped and kind in ("counter", "gauge", "histogram"), line
                self.types[name] = kind
                current = name
            else:
                self._take(line, current)
        assert all(
            any(self._family(n) == family for n, _ in self.samples) for family in self.types
        ), "a family without samples"
        for family, kind in self.types.items():
            if kind == "histogram":
                self._check_histogram(family)

    def _family(self, name):
        for suffix in _SUFFIXES:
            base = name.removesuffix(suffix)
            if base != name and self.types.get(base) == "histogram":
                return base
        return name

    def _take(self, line, current):
        match = _SAMPLE.fullmatch(line)
        assert match, f"{line!r} is no sample"
        name, labels, value = match.groups()
        assert self._family(name) == current, f"{line!r} is not of {current}"
        key = (name, tuple(sorted(_labels(labels or "").items())))
        assert key not in self.samples, f"{line!r} comes twice"
        self.samples[key] = float(value)
        if self.types[current] != "gauge":
            assert self.samples[key] >= 0, line

    def _check_histogram(self, family):
        series = {}
        for (name, labels), value in self.samples.items():
            if name == family + "_bucket":
                rest = tuple(l for l in labels if l[0] != "le")
                series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        assert series, family
        for labels, buckets in series.items():
            assert buckets == sorted(buckets) and buckets[-1][0] == float("inf"), (family, buckets)
            assert [n for _, n in buckets] == sorted(n for _, n in buckets), (family, buckets)
            assert self.samples[family + "_count", labels] == buckets[-1][1]
            assert (family + "_sum", labels) in self.samples

    def value(self, name, **labels):
        return self.samples[name, tuple(sorted((k, str(v)) for k, v in labels.items()))]

    def has(self, name):
        return any(n == name for n, _ in self.samples)

    def by(self, name, label):
        """{value of the label: sample}, for a metric with this label alone."""
        return {
            dict(labels)[label]: value for (n, labels), value in self.samples.items() if n == name
        }


def page(address):
    status, body = get(address)
    assert status == 200, body
    return Page(body)
