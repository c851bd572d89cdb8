"""Every directory has a README, and what documents link to exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
GENERATED = {"build", "dist", ".git", ".pytest_cache", "__pycache__"}
# Every file in a directory there is an input, or Helm and Debian say what it is called: a README is
# above.
NAMED_ABOVE = {
    "charts/check",
    "charts/millrace",
    "charts/millrace/templates",
    "debian",
    "packaging",
    "tests/fuzz/corpus",
}


def directories():
    """All of the tree that hold a file of it."""
    found = [ROOT]
    for path in found:
        found += [
            p
            for p in sorted(path.iterdir())
            if p.is_dir() and p.name not in GENERATED and not p.name.endswith(".egg-info")
        ]
    return [p for p in found if any(f.is_file() for f in p.iterdir())]


def test_every_directory_has_a_readme():
    missing = [str(p.relative_to(ROOT)) for p in directories() if not (p / "README.md").exists()]
    assert [m for m in missing if str(pathlib.Path(m).parent) not in NAMED_ABOVE] == []


def anchors(page):
    """The names under which a page's headings can be linked to, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(page):
    found = (
        target.partition("#")
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if "://" not in target
    )
    return [(page.parent / name if name else page, anchor) for name, _, anchor in found]


def test_links_lead_somewhere():
    broken = []
    for page in (p for d in directories() for p in d.glob("*.md")):
        for there, anchor in links(page):
            if not there.exists() or (anchor and anchor not in anchors(there)):
                broken.append(f"{page.relative_to(ROOT)}: {there.name}#{anchor}")
    assert broken == []


def test_every_page_is_in_the_index_of_its_readers():
    for readers in ("use", "run", "change"):
        index = ROOT / "docs" / readers / "README.md"
        assert set(index.parent.glob("*.md")) - {index} <= {there for there, _ in links(index)}
