"""Put off what a package does when it is imported until another package is imported."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection
from typing import Any


def once_imported(
    awaited: str, package: str, earlier_names: Collection[str], action: Callable[[], object]
) -> None:
    """Call a function once `awaited` is imported, by whomever, or at once if it is.

    Nothing of `package` is half imported by then: where one of its modules imports `awaited`, it
    comes to its end first.

    Args:
        awaited: the other package.
        package: the package that puts something off.
        earlier_names: modules that exist no more; to import one of them imports `awaited`, and
            the function has to put it into `sys.modules`.
        action: the function, called once and without arguments.

    Example:

    ```python
    from keras_xd.core.first_import import once_imported

    once_imported("tabnanny", "my_package", (), lambda: print("imported"))
    import tabnanny  # prints "imported"
    ```
    """
    if awaited in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(awaited, package, earlier_names, action))


class _Finder:
    """Finds modules as the finders behind it do, and watches when they run."""

    def __init__(self, awaited, package, earlier_names, action):
        self.awaited = awaited
        self.package = package
        self.earlier_names = earlier_names
        self.action = action
        self.running = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module's specification with a loader that is watched, or `None`."""
        if name in self.earlier_names:
            return importlib.util.spec_from_loader(name, _Watched(_Importing(self.awaited), self))
        if name != self.awaited and not name.startswith(f"{self.package}."):
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Watched(spec.loader, self)
                return spec
        return None

    def ended(self, name: str) -> None:
        """Call the action if nothing runs any more and the awaited package is there."""
        self.running.remove(name)
        if not self.running and self in sys.meta_path and self.awaited in sys.modules:
            sys.meta_path.remove(self)
            self.action()


class _Watched:
    """Another loader, whose finder is told when the module has run."""

    def __init__(self, loader, finder):
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.loader, name)  # what else tools ask of a loader, such as its source

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self.loader
        name = module.__spec__.name
        self.finder.running.append(name)
        try:
            self.loader.exec_module(module)
        finally:
            self.finder.ended(name)


class _Importing:
    """The loader of a module that is an earlier name of another one."""

    def __init__(self, awaited):
        self.awaited = awaited

    def create_module(self, spec: Any) -> None:
        return None  # Python makes an empty module

    def exec_module(self, module: Any) -> None:
        importlib.import_module(self.awaited)
