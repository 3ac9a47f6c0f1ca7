import importlib
import importlib.util
import sys

import pytest

from keras_xd.core.first_import import once_imported

FILES = {
    "awaited_package.py": "VALUE = 1",
    "off/__init__.py": "",
    "off/plain.py": "VALUE = 2",
    "off/using.py": "import awaited_package\nfrom off import plain\nVALUE = plain.VALUE + 1",
    "off/broken.py": "import awaited_package\nraise ImportError('broken')",
}


@pytest.fixture
def events(tmp_path, monkeypatch):
    """Put the packages on the path; return the list to which the action adds what is imported."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    found = []

    def action():
        earlier = sys.modules.get("off.using")
        found.append([name for name in loaded() if name != "off.earlier"])
        assert earlier is None or earlier.VALUE == 3  # nothing is half imported
        sys.modules["off.earlier"] = importlib.import_module("off.plain")

    import off  # noqa: F401

    once_imported("awaited_package", "off", ("off.earlier",), action)
    yield found
    for name in loaded():
        del sys.modules[name]


def loaded():
    return [name for name in sys.modules if name.partition(".")[0] in ("off", "awaited_package")]


def test_the_function_is_called_once_after_the_other_package(events):
    finders = len(sys.meta_path)
    import off.plain

    assert off.plain.VALUE == 2 and events == []
    import awaited_package

    assert awaited_package.VALUE == 1 and events == [["off", "off.plain", "awaited_package"]]
    importlib.reload(awaited_package)
    assert len(events) == 1 and len(sys.meta_path) == finders - 1


def test_modules_that_import_the_other_package_end_first(events):
    import off.using

    assert off.using.VALUE == 3
    assert events == [["off", "off.using", "awaited_package", "off.plain"]]


def test_the_function_is_called_after_an_error_too(events):
    with pytest.raises(ImportError, match="broken"):
        import off.broken  # noqa: F401
    assert events == [["off", "off.broken", "awaited_package"]]


def test_a_missing_package_is_missing(events):
    with pytest.raises(ImportError, match="No module named 'off.missing'"):
        import off.missing  # noqa: F401
    assert events == []


def test_earlier_names_are_imported(events):
    from off.earlier import VALUE

    assert VALUE == 2 and sys.modules["off.earlier"] is sys.modules["off.plain"]
    assert sys.modules["off.plain"].__name__ == "off.plain"
    assert events == [["off", "awaited_package"]]


def test_loaders_are_those_of_python(events):
    specification = importlib.util.find_spec("awaited_package")
    assert specification.loader.get_source("awaited_package") == "VALUE = 1"
    assert events == []  # finding is not importing
    import awaited_package

    for loader in (awaited_package.__loader__, awaited_package.__spec__.loader):
        assert type(loader) is importlib.machinery.SourceFileLoader


def test_what_is_imported_is_not_waited_for(events):
    import awaited_package  # noqa: F401

    more = []
    once_imported("awaited_package", "off", (), lambda: more.append("called"))
    assert more == ["called"] and len(events) == 1
