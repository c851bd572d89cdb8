"""Every directory has a README, and what documents link to exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
GENERATED = {"build", ".git", ".pytest_cache", "__pycache__"}
SAMPLES = {"tests/fuzz/corpus"}  # every file there is an input; the README is one directory above


def directories():
    """All of the tree that hold a file of it."""
    found = [ROOT]
    for path in found:
        found += [p for p in sorted(path.iterdir()) if p.is_dir() and p.name not in GENERATED and not p.name.endswith(".egg-info")]
    return [p for p in found if any(f.is_file() for f in p.iterdir())]


def test_every_directory_has_a_readme():
    missing = [str(p.relative_to(ROOT)) for p in directories() if not (p / "README.md").exists()]
    assert [m for m in missing if str(pathlib.Path(m).parent) not in SAMPLES] == []


def test_links_lead_somewhere():
    broken = []
    for page in (p for d in directories() for p in d.glob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
