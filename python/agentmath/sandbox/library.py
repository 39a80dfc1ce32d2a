"""Which files of this Python installation a snippet may read, and what the sandbox process must find."""

from __future__ import annotations

import os
import sys
import sysconfig

_SYSTEM_PATHS = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/usr/share/locale",
    "/sys/devices/system/cpu",
)


def package_folders() -> list[str]:
    """Folders of installed packages, in the order of this process's own search path."""
    names = ("site-packages", "dist-packages")
    return [path for path in sys.path if os.path.basename(path) in names and os.path.isdir(path)]


def standard_library() -> list[str]:
    """Folders of the standard library, its compiled modules, and the interpreter's shared library."""
    paths = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("LIBDIR")]
    paths += [path for path in sys.path if path.endswith("lib-dynload")]
    folders = {os.path.realpath(path) for path in paths if path and os.path.isdir(path)}
    return sorted(folders)


def readable_paths() -> list[str]:
    """Everything a snippet may read: no home, no working folder, no data."""
    return [*standard_library(), *package_folders(), *_SYSTEM_PATHS]


def needed_paths() -> list[str]:
    """What must be readable for imports to work in the sandbox."""
    return [os.path.realpath(os.__file__), *standard_library(), *package_folders()]
