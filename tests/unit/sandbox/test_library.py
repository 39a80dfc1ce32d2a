from __future__ import annotations

import os
from pathlib import Path

from agentmath.sandbox import library


def test_no_readable_path_contains_a_home_or_the_working_folder() -> None:
    private = {Path.home().resolve(), Path.cwd().resolve(), Path("/")}
    for path in library.readable_paths():
        resolved = Path(path).resolve()
        assert not any(place == resolved or resolved in place.parents for place in private), path


def test_the_standard_library_is_readable() -> None:
    roots = [Path(path) for path in library.standard_library()]
    assert any(root in Path(os.__file__).resolve().parents for root in roots)
